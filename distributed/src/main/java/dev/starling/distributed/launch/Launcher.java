package dev.starling.distributed.launch;

import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Starts the processes of a cluster on this host: each is told its rank, the number of processes, the coordinator's
 * address and a file with the secret ({@link LaunchedProcess}); each line of their output is led by the rank; signals
 * are handed on; when one fails all end, or it is started again. Nothing stays behind: no process, and no file in what
 * {@code STARLING_DIRECTORY} names to them, even if a process or the launcher itself is killed. That is a folder of the
 * launch's own: in what the variable names to this process, else in {@code /dev/shm} where there is room for all, else
 * in the temporary directory.
 *
 * <pre>{@code
 * int status = Launcher.ofJava(Training.class, "--epochs", "3").processes(4).restarts(2).run();
 * }</pre>
 *
 * <p>Every process gets a session of its own (with {@code setsid}; where that tool is missing, what a process starts
 * itself is left to it). Standard input is empty. Needs a POSIX system. Immutable.
 */
public final class Launcher {
    private static final List<Path> SESSION_TOOLS = List.of(Path.of("/usr/bin/setsid"), Path.of("/bin/setsid"));

    final List<String> command;
    final int processes;
    final int servers;
    final int restarts;
    final int tolerated;
    final Duration backoff;
    final Duration grace;
    final String coordinator;
    final CoordinatorFactory coordinatorFactory;
    final Secret secret;
    final Map<String, String> environment;
    final boolean signals;
    final Output output;
    final OutputStream standardOutput;
    final OutputStream standardError;

    /** What becomes of the processes' output. */
    public enum Output {
        /** Whole lines, each led by the rank, standard output to standard output and errors to errors. */
        PREFIXED,
        /**
         * As if the first rank ran alone: its output as it is, and what others write to standard output; what they
         * write to standard error is shown if they fail.
         */
        FIRST_RANK
    }

    private Launcher(Builder how) {
        command = List.copyOf(how.command);
        processes = how.processes;
        servers = how.servers;
        restarts = how.restarts;
        tolerated = how.tolerated;
        backoff = how.backoff;
        grace = how.grace;
        coordinator = how.coordinator;
        coordinatorFactory = how.coordinatorFactory;
        secret = how.secret == null ? Secret.random() : how.secret;
        environment = Map.copyOf(how.environment);
        signals = how.signals;
        output = how.output;
        standardOutput = how.standardOutput;
        standardError = how.standardError;
    }

    /** Launches a command, found as a shell would. */
    public static Builder of(List<String> command) {
        return new Builder(command);
    }

    /** Launches a Java program with this JVM's java command, flags, module path and class path. */
    public static Builder ofJava(Class<?> main, String... arguments) {
        return new Builder(JavaCommand.of(main, List.of(arguments)));
    }

    /** Launches this Java program itself, with this JVM's flags; {@link LaunchedProcess} tells it what it is then. */
    public static Builder ofThisProgram(String... arguments) {
        return new Builder(JavaCommand.ofThisProgram(List.of(arguments)));
    }

    /** Returns the start of a command that gets a session of its own, or nothing. */
    static List<String> session() {
        return SESSION_TOOLS.stream().filter(Files::isExecutable).map(tool -> List.of(tool.toString())).findFirst()
                .orElse(List.of());
    }

    /**
     * Starts the processes.
     *
     * @throws LaunchException if the command is not there, or this machine cannot start processes
     */
    public Launch start() {
        return Launch.start(this);
    }

    /**
     * Starts the processes and waits for their end.
     *
     * @return 0, or 128 + the number of the signal by which this process was told to end
     * @throws LaunchException if a process failed
     */
    public int run() {
        try (Launch launch = start()) {
            return launch.await();
        }
    }

    /** Gathers what a launch is made of. */
    public static final class Builder {
        private final List<String> command;
        private final Map<String, String> environment = new LinkedHashMap<>();
        private int processes = 1;
        private int servers;
        private int restarts;
        private int tolerated;
        private Duration backoff = Duration.ofMillis(500);
        private Duration grace = Duration.ofSeconds(5);
        private String coordinator;
        private CoordinatorFactory coordinatorFactory;
        private Secret secret;
        private boolean signals;
        private Output output = Output.PREFIXED;
        private OutputStream standardOutput = new FileOutputStream(FileDescriptor.out);
        private OutputStream standardError = new FileOutputStream(FileDescriptor.err);

        private Builder(List<String> command) {
            require(!command.isEmpty(), "there must be a command");
            this.command = command;
        }

        /** Sets the number of processes, servers among them; 1 unless told. */
        public Builder processes(int count) {
            require(count > 0, "processes must be > 0, got " + count);
            processes = count;
            return this;
        }

        /**
         * Sets how many of the processes, the last ones, serve the others: when all others are done they have the grace
         * to end by themselves, and are told to afterwards.
         */
        public Builder servers(int count) {
            require(count >= 0, "servers must be >= 0, got " + count);
            servers = count;
            return this;
        }

        /** Sets how many times, in all, a process that failed is started again with its rank; 0 unless told. */
        public Builder restarts(int limit) {
            require(limit >= 0, "restarts must be >= 0, got " + limit);
            restarts = limit;
            return this;
        }

        /** Sets how many workers may fail, and not be started again, while the others go on; 0 unless told. */
        public Builder tolerate(int failures) {
            require(failures >= 0, "failures to tolerate must be >= 0, got " + failures);
            tolerated = failures;
            return this;
        }

        /** Sets how long the first restart waits; each further one waits twice as long. Half a second unless told. */
        public Builder backoff(Duration first) {
            require(!first.isNegative(), "the backoff must be >= 0, got " + first);
            backoff = first;
            return this;
        }

        /** Sets how long processes have from being told to end until they are killed; 5 s unless told. */
        public Builder grace(Duration longest) {
            require(!longest.isNegative(), "the grace must be >= 0, got " + longest);
            grace = longest;
            return this;
        }

        /** Sets the {@code host:port} of a coordinator that runs outside of the processes. */
        public Builder coordinator(String address) {
            coordinator = address;
            return this;
        }

        /** Runs a coordinator in this process as long as the others run, and tells them where. */
        public Builder coordinator(CoordinatorFactory opening) {
            coordinatorFactory = opening;
            return this;
        }

        /** Sets the cluster's secret; a new one unless told. */
        public Builder secret(Secret shared) {
            secret = shared;
            return this;
        }

        /** Gives the processes an environment variable more than this process has. */
        public Builder environment(String name, String value) {
            environment.put(name, value);
            return this;
        }

        /**
         * Hands SIGINT, SIGTERM and SIGHUP of this process on to the others and ends when they have, in place of what
         * the JVM does. For programs that do nothing else: the JVM's signals are the whole process's. Without, the
         * processes are told to end when this JVM ends, by whatever way it can still tell them.
         */
        public Builder forwardSignals() {
            signals = true;
            return this;
        }

        /** Sets what becomes of the output; {@link Output#PREFIXED} unless told. */
        public Builder output(Output style) {
            output = style;
            return this;
        }

        /** Sets where output goes, if not to this process's own standard output and standard error. */
        public Builder output(OutputStream out, OutputStream err) {
            standardOutput = out;
            standardError = err;
            return this;
        }

        /** Makes the launcher. */
        public Launcher build() {
            require(servers < processes, "servers < processes must hold, got " + servers + " and " + processes);
            return new Launcher(this);
        }

        /** Makes the launcher and starts the processes, see {@link Launcher#start}. */
        public Launch start() {
            return build().start();
        }

        /** Makes the launcher, starts the processes and waits for their end, see {@link Launcher#run}. */
        public int run() {
            return build().run();
        }

        private static void require(boolean holds, String relation) {
            if (!holds) {
                throw TensorException.argument("launcher", relation, "change the builder's setting");
            }
        }
    }
}
