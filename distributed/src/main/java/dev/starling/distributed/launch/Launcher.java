package dev.starling.distributed.launch;

import dev.starling.errors.Durations;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Starts the processes of a cluster on this host. Each process receives its rank, the number of processes, the
 * coordinator's address and a file with the secret through its environment ({@link LaunchedProcess}); each line of
 * output is prefixed with its rank; signals are forwarded; if one process fails, all are terminated, or it is
 * restarted. Nothing is left behind, neither processes nor files in the directory that {@code STARLING_DIRECTORY} names
 * to them, even if a process or the launcher itself is killed. That directory belongs to the launch; it lies in the
 * directory that the variable names to this process, else in {@code /dev/shm} where there is room for all, else in the
 * temporary directory.
 *
 * <pre>{@code
 * int status = Launcher.ofJava(Training.class, "--epochs", "3").processes(4).restarts(2).run();
 * }</pre>
 *
 * <p>Every process runs in a session of its own (with {@code setsid}; where that tool is missing or the system refuses
 * it, descendants of a process are not terminated with it). Standard input is empty. Needs a POSIX system. Immutable: a
 * method that sets something returns a copy.
 */
public final class Launcher implements Cloneable {
    private static final int NOT_FOUND = 127;
    /** A few times as many nanoseconds are still a {@code long}. */
    private static final Duration MAX_GRACE = Duration.ofDays(365);
    private static final List<Path> SESSION_TOOLS = List.of(Path.of("/usr/bin/setsid"), Path.of("/bin/setsid"));

    final List<String> command;
    /** Whether the command has all flags of this JVM. */
    final boolean thisJvm;
    int processes = 1;
    int servers;
    int restarts;
    int tolerated;
    Duration backoff = Duration.ofMillis(500);
    Duration grace = Duration.ofSeconds(5);
    /** {@code null} if the processes need none, or this process runs it. */
    @Nullable String coordinator;
    /** {@code null} if this process runs no coordinator. */
    @Nullable CoordinatorFactory coordinatorFactory;
    /** {@code null} for a new random one at each start. */
    @Nullable Secret secret;
    Map<String, String> environment = Map.of();
    boolean signals;
    Output output = Output.PREFIXED;
    /** {@code null} for none. */
    @Nullable Path logs;
    OutputStream standardOutput = new FileOutputStream(FileDescriptor.out);
    OutputStream standardError = new FileOutputStream(FileDescriptor.err);

    /** How the processes' output is shown. */
    public enum Output {
        /**
         * Whole lines, each prefixed with its rank; standard output to standard output and errors to standard error.
         */
        PREFIXED,
        /**
         * As if the first rank ran alone: its output is shown unchanged, as is what the others write to standard
         * output; what they write to standard error is shown only if they fail.
         */
        FIRST_RANK
    }

    private Launcher(List<String> command, boolean thisJvm) {
        require(!command.isEmpty(), "the command must not be empty");
        this.thisJvm = thisJvm;
        this.command = List.copyOf(command);
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("launcher", relation, "change the launcher's setting");
        }
    }

    /** Returns a copy with a change. */
    private Launcher with(Consumer<Launcher> change) {
        try {
            Launcher copy = (Launcher) clone();
            change.accept(copy);
            return copy;
        } catch (CloneNotSupportedException e) {
            throw new AssertionError("a launcher can be copied", e);
        }
    }

    /** Launches a command, which is looked up on the PATH. */
    public static Launcher of(List<String> command) {
        return new Launcher(command, false);
    }

    /** Launches a Java program with this JVM's java command, flags, module path and class path. */
    public static Launcher ofJava(Class<?> main, String... arguments) {
        return new Launcher(JavaCommand.of(main, List.of(arguments)), true);
    }

    /**
     * Launches this Java program itself, with this JVM's flags; in the new process {@link LaunchedProcess} describes
     * its role.
     */
    public static Launcher ofThisProgram(String... arguments) {
        return new Launcher(JavaCommand.ofThisProgram(List.of(arguments)), true);
    }

    /** Removes the variables that are for this process alone. */
    void removeOwn(Set<String> variables) {
        variables.removeAll(List.of(LaunchedProcess.SECRET, LaunchedProcess.COORDINATOR, LaunchedProcess.ROLE));
        if (thisJvm) {
            variables.removeAll(JavaCommand.VARIABLES);
        }
    }

    /** Returns a prefix that runs a command in a session of its own, or an empty list. */
    static List<String> session() throws IOException {
        return session(SESSION_TOOLS);
    }

    static List<String> session(List<Path> tools) throws IOException {
        for (Path tool : tools) {
            // A container's filter of system calls may refuse a session.
            if (Files.isExecutable(tool) && new ProcessBuilder(tool.toString(), "true").start().onExit().join()
                    .exitValue() == 0) {
                return List.of(tool.toString());
            }
        }
        return List.of();
    }

    /**
     * Starts the processes.
     *
     * @throws LaunchException if the command does not exist, or this machine cannot start processes
     */
    public Launch start() {
        require(servers < processes, "servers < processes must hold, got " + servers + " and " + processes);
        return Launch.start(this);
    }

    /**
     * Starts the processes and waits for their end.
     *
     * @return 0, or 128 + the number of the signal that terminated this process
     * @throws LaunchException if a process failed
     */
    public int run() {
        try (Launch launch = start()) {
            return launch.await();
        }
    }

    // ---- settings ----

    /** Sets the number of processes, servers included; the default is 1. */
    public Launcher processes(int count) {
        require(count > 0, "processes must be > 0, got " + count);
        return with(copy -> copy.processes = count);
    }

    /**
     * Sets how many of the processes, the last ones, serve the others. When all others have finished, servers have
     * the grace period to end by themselves, and are terminated afterwards.
     */
    public Launcher servers(int count) {
        require(count >= 0, "servers must be >= 0, got " + count);
        return with(copy -> copy.servers = count);
    }

    /**
     * Sets how many restarts of failed processes there may be in all; a restarted process keeps its rank. A worker of
     * a group that {@link #coordinator(CoordinatorFactory)} forms is not restarted once another one has finished the
     * run and none runs any more, and a restarted one that joins after that is refused. The default is 0.
     */
    public Launcher restarts(int limit) {
        require(limit >= 0, "restarts must be >= 0, got " + limit);
        return with(copy -> copy.restarts = limit);
    }

    /** Sets how many workers may fail without a restart while the others continue; the default is 0. */
    public Launcher tolerate(int failures) {
        require(failures >= 0, "failures to tolerate must be >= 0, got " + failures);
        return with(copy -> copy.tolerated = failures);
    }

    /** Sets the delay of the first restart, which doubles with each further one; the default is half a second. */
    public Launcher backoff(Duration first) {
        require(!first.isNegative(), "the backoff must be >= 0, got " + first);
        return with(copy -> copy.backoff = first);
    }

    /** Sets the grace period between the termination signal and SIGKILL, at most 365 days; the default is 5 s. */
    public Launcher grace(Duration period) {
        require(!period.isNegative() && period.compareTo(MAX_GRACE) <= 0, "the grace period must be >= 0 and at most "
                + Durations.text(MAX_GRACE) + ", got " + Durations.text(period));
        return with(copy -> copy.grace = period);
    }

    /** Sets the {@code host:port} of a coordinator that runs outside of the processes. */
    public Launcher coordinator(String address) {
        return with(copy -> copy.coordinator = address);
    }

    /** Runs a coordinator in this process for as long as the others run, and passes its address to them. */
    public Launcher coordinator(CoordinatorFactory factory) {
        return with(copy -> copy.coordinatorFactory = factory);
    }

    /** Sets the cluster's secret; the default is a new random one. */
    public Launcher secret(Secret shared) {
        return with(copy -> copy.secret = shared);
    }

    /** Adds an environment variable to those that the processes inherit from this one. */
    public Launcher environment(String name, String value) {
        return with(copy -> {
            copy.environment = new HashMap<>(environment);
            copy.environment.put(name, value);
        });
    }

    /**
     * Forwards SIGINT, SIGTERM and SIGHUP of this process to the others and ends after them, in place of the JVM's
     * handling. For programs that do nothing else, because signal handlers apply to the whole JVM. Without this,
     * the processes are terminated when this JVM ends in a way that it can still react to.
     */
    public Launcher forwardSignals() {
        return with(copy -> copy.signals = true);
    }

    /** Sets how output is shown; the default is {@link Output#PREFIXED}. */
    public Launcher output(Output style) {
        return with(copy -> copy.output = style);
    }

    /**
     * Writes the output of each process to a file of its rank in this directory, {@code rank-0.log} and so on, in
     * addition to what is shown; {@code null} for none. Files are appended to; a line marks each start.
     */
    public Launcher logs(@Nullable Path directory) {
        return with(copy -> copy.logs = directory);
    }

    /** Sets the streams for output; the default is this process's standard output and standard error. */
    public Launcher output(OutputStream out, OutputStream err) {
        return with(copy -> {
            copy.standardOutput = out;
            copy.standardError = err;
        });
    }

    /** Requires an executable file of a name, on the PATH unless it is a path. */
    static void requireCommand(String name) {
        Path path = Path.of(name);
        List<Path> candidates = path.getNameCount() > 1 || path.isAbsolute() ? List.of(path)
                : Arrays.stream(System.getenv().getOrDefault("PATH", "/usr/bin:/bin").split(":"))
                        .map(folder -> Path.of(folder).resolve(name)).toList();
        if (candidates.stream().noneMatch(c -> Files.isRegularFile(c) && Files.isExecutable(c))) {
            throw new LaunchException(NOT_FOUND, "there is no executable command '" + name + "'"
                    + (candidates.size() == 1 ? "" : " on the PATH") + "; check the spelling, or "
                    + "give its full path");
        }
    }
}
