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
 * <p>Every process runs in a session of its own (with {@code setsid}; where that tool is missing, descendants of a
 * process are not terminated with it). Standard input is empty. Needs a POSIX system. Immutable.
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

    private Launcher(Builder builder) {
        command = List.copyOf(builder.command);
        processes = builder.processes;
        servers = builder.servers;
        restarts = builder.restarts;
        tolerated = builder.tolerated;
        backoff = builder.backoff;
        grace = builder.grace;
        coordinator = builder.coordinator;
        coordinatorFactory = builder.coordinatorFactory;
        secret = builder.secret == null ? Secret.random() : builder.secret;
        environment = Map.copyOf(builder.environment);
        signals = builder.signals;
        output = builder.output;
        standardOutput = builder.standardOutput;
        standardError = builder.standardError;
    }

    /** Launches a command, which is looked up on the PATH. */
    public static Builder of(List<String> command) {
        return new Builder(command);
    }

    /** Launches a Java program with this JVM's java command, flags, module path and class path. */
    public static Builder ofJava(Class<?> main, String... arguments) {
        return new Builder(JavaCommand.of(main, List.of(arguments)));
    }

    /**
     * Launches this Java program itself, with this JVM's flags; in the new process {@link LaunchedProcess} describes
     * its role.
     */
    public static Builder ofThisProgram(String... arguments) {
        return new Builder(JavaCommand.ofThisProgram(List.of(arguments)));
    }

    /** Returns a prefix that runs a command in a session of its own, or an empty list. */
    static List<String> session() {
        return SESSION_TOOLS.stream().filter(Files::isExecutable).map(tool -> List.of(tool.toString())).findFirst()
                .orElse(List.of());
    }

    /**
     * Starts the processes.
     *
     * @throws LaunchException if the command does not exist, or this machine cannot start processes
     */
    public Launch start() {
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

    /** Collects the configuration of a launch. A launcher that was built is independent of its builder. */
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
            require(!command.isEmpty(), "the command must not be empty");
            this.command = command;
        }

        /** Sets the number of processes, servers included; the default is 1. */
        public Builder processes(int count) {
            require(count > 0, "processes must be > 0, got " + count);
            processes = count;
            return this;
        }

        /**
         * Sets how many of the processes, the last ones, serve the others. When all others have finished, servers have
         * the grace period to end by themselves, and are terminated afterwards.
         */
        public Builder servers(int count) {
            require(count >= 0, "servers must be >= 0, got " + count);
            servers = count;
            return this;
        }

        /**
         * Sets how many restarts of failed processes there may be in all; a restarted process keeps its rank. The
         * default is 0.
         */
        public Builder restarts(int limit) {
            require(limit >= 0, "restarts must be >= 0, got " + limit);
            restarts = limit;
            return this;
        }

        /** Sets how many workers may fail without a restart while the others continue; the default is 0. */
        public Builder tolerate(int failures) {
            require(failures >= 0, "failures to tolerate must be >= 0, got " + failures);
            tolerated = failures;
            return this;
        }

        /** Sets the delay of the first restart, which doubles with each further one; the default is half a second. */
        public Builder backoff(Duration first) {
            require(!first.isNegative(), "the backoff must be >= 0, got " + first);
            backoff = first;
            return this;
        }

        /** Sets the grace period between the termination signal and SIGKILL; the default is 5 s. */
        public Builder grace(Duration period) {
            require(!period.isNegative(), "the grace period must be >= 0, got " + period);
            grace = period;
            return this;
        }

        /** Sets the {@code host:port} of a coordinator that runs outside of the processes. */
        public Builder coordinator(String address) {
            coordinator = address;
            return this;
        }

        /** Runs a coordinator in this process for as long as the others run, and passes its address to them. */
        public Builder coordinator(CoordinatorFactory factory) {
            coordinatorFactory = factory;
            return this;
        }

        /** Sets the cluster's secret; the default is a new random one. */
        public Builder secret(Secret shared) {
            secret = shared;
            return this;
        }

        /** Adds an environment variable to those that the processes inherit from this one. */
        public Builder environment(String name, String value) {
            environment.put(name, value);
            return this;
        }

        /**
         * Forwards SIGINT, SIGTERM and SIGHUP of this process to the others and ends after them, in place of the JVM's
         * handling. For programs that do nothing else, because signal handlers apply to the whole JVM. Without this,
         * the processes are terminated when this JVM ends in a way that it can still react to.
         */
        public Builder forwardSignals() {
            signals = true;
            return this;
        }

        /** Sets how output is shown; the default is {@link Output#PREFIXED}. */
        public Builder output(Output style) {
            output = style;
            return this;
        }

        /** Sets the streams for output; the default is this process's standard output and standard error. */
        public Builder output(OutputStream out, OutputStream err) {
            standardOutput = out;
            standardError = err;
            return this;
        }

        /** Makes the builder. */
        public Launcher build() {
            require(servers < processes, "servers < processes must hold, got " + servers + " and " + processes);
            return new Launcher(this);
        }

        /** Creates the launcher and starts the processes; see {@link Launcher#start}. */
        public Launch start() {
            return build().start();
        }

        /** Creates the launcher, starts the processes and waits for their end; see {@link Launcher#run}. */
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
