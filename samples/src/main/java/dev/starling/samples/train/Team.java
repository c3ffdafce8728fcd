package dev.starling.samples.train;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.launch.Launcher;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.errors.ThreadException;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Split;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;

/**
 * Trains a sample with several workers: processes that it launches, processes launched by another command, or threads.
 */
final class Team {
    private static final String LOCAL = "local";

    private final TrainingRun run;
    private final TeamOptions options;
    private final DataDirectory directory;
    private final PrintWriter out;

    Team(TrainingRun run, TeamOptions options, DataDirectory directory, PrintWriter out) {
        this.run = run;
        this.options = options;
        this.directory = directory;
        this.out = out;
    }

    /** Checks the options, and returns the message on an invalid one, or {@code null}. */
    static String problem(TeamOptions options, LaunchedProcess process) {
        String value = options.badValue();
        if (value != null) {
            return value;
        }
        String idle = idleOption(options);
        if (idle != null) {
            return idle;
        }
        if (process != null && options.workers() > 0 && options.workers() != process.workers()) {
            return "--workers=" + options.workers() + ", but this process was launched as one of " + process.workers()
                    + " workers: omit --workers, or start it without a launcher";
        }
        if (process != null && options.servers() != process.servers()) {
            return options.name() + " needs " + options.servers() + " servers, but this process was "
                    + "launched with " + process.servers() + ": use run --servers " + options.servers();
        }
        if (process == null && options.isRequested() && options.workers() == 0) {
            return "--strategy needs --workers N";
        }
        if (options.join && (process == null || process.runsCoordinator() || !options.survives())) {
            return "--join applies to a process that is started by itself and joins workers that continue after a loss"
                    + ": omit it";
        }
        String alone = process == null && options.workers() == 0 ? teamOption(options) : null;
        return alone == null ? null : alone + " applies to several workers: add --workers N";
    }

    /** Returns the message on an option that the strategy or the transport does not use, or {@code null}. */
    private static String idleOption(TeamOptions options) {
        boolean ps = options.strategy() == TeamOptions.Strategy.PS;
        String none = " has no servers: omit it, or use --strategy ps";
        if (options.staleness != null && !ps) {
            return "--staleness applies to ps, and " + options.name() + none;
        }
        if (options.servers != null && !ps) {
            return "--servers applies to ps, and " + options.name() + none;
        }
        if (options.serverData != null && !ps) {
            return "--server-data applies to ps, and " + options.name() + none;
        }
        if (options.compressionOption() != null && options.strategy() != TeamOptions.Strategy.RING) {
            return options.compressionOption() + " applies to ring, and " + options.name()
                    + " sends f32: omit it, or use --strategy ring";
        }
        if (options.proportional && !options.sharesBatches()) {
            return "--proportional divides batches that all workers share, but with " + options.name()
                    + " each worker has batches of its own: use ring, or ps --staleness 0";
        }
        if (options.restarts > 0 && isLocal(options)) {
            return "--restarts restarts processes, but --transport local runs workers as threads: omit it, or use "
                    + "--transport aeron";
        }
        if (options.protection != null && isLocal(options)) {
            return "--protection applies to frames between hosts, but --transport local runs workers as threads: omit "
                    + "it, or use --transport aeron or tcp";
        }
        if (options.logs != null && isLocal(options)) {
            return "--logs writes the output of processes, but --transport local runs workers as threads: omit it, or "
                    + "use --transport aeron";
        }
        if (options.isSynchronous() && (options.elastic || options.restarts > 0)) {
            return (options.elastic ? "--elastic" : "--restarts") + " cannot be combined with " + options.name()
                    + ", which ends when a worker or a server is lost: omit it, and resume from --checkpoints with "
                    + "--resume; or use ring, or ps without --staleness 0";
        }
        if (options.rulesOption() != null && !options.survives()) {
            return options.rulesOption() + " applies to workers that continue after a loss, and " + options.name()
                    + " ends: omit it, or use ring with --elastic";
        }
        return null;
    }

    /** Returns an option that configures training with several workers, or {@code null} if there is none. */
    private static String teamOption(TeamOptions options) {
        if (options.compressionOption() != null) {
            return options.compressionOption();
        }
        if (options.rulesOption() != null) {
            return options.rulesOption();
        }
        return options.elastic ? "--elastic" : options.restarts > 0 ? "--restarts"
                : options.proportional ? "--proportional" : options.protection != null ? "--protection"
                : options.logs != null ? "--logs" : isLocal(options) ? "--transport local" : null;
    }

    // ---- processes ----

    /** Launches this command once for each worker and server, and waits for all. */
    int launch(List<String> arguments) {
        run.prepare(directory);
        return Launcher.ofThisProgram(arguments.toArray(String[]::new)).processes(options.workers() + options.servers())
                .servers(options.servers()).restarts(options.restarts)
                        .tolerate(options.survives() ? options.workers() - 1 : 0)
                .coordinator(Clusters.coordinator(options.transport, rules(), options.livenessTimeout()))
                .output(Launcher.Output.FIRST_RANK).logs(options.logs).forwardSignals().run();
    }

    /** Returns the rules of a group of all workers and servers of this host. */
    private CoordinatorConfig rules() {
        return options.rules(options.workers() + options.servers());
    }

    /** Does the work of this process, which is one of those launched. */
    void member(LaunchedProcess process) {
        run.threads(process.threads());
        run.place(process.localRank(), process.localWorkers());
        Split split = process.isServer() ? null : run.load(directory);
        TransportConfig config = Clusters.config(process, options);
        try (Clusters.Resource coordinator = Clusters.coordinator(process, config,
                options.rules(process.world()));
                Group group = Clusters.join(process, config, options.join)) {
            work(group, split, process.rank(), process.workers());
        }
    }

    /** Trains, or runs a server if the rank is one of the last. */
    private void work(Group group, Split split, int rank, int workers) {
        if (rank >= workers) {
            ParameterServer.serve(group, ServerConfig.inMemory().directory(options.serverData));
            return;
        }
        try (DistributionStrategy strategy = strategy(group, rank, workers)) {
            run.train(split, strategy, workers, rank == 0, out);
        }
    }

    private DistributionStrategy strategy(Group group, int rank, int workers) {
        return switch (options.strategy()) {
            case RING -> {
                RingAllReduce.Builder ring = RingAllReduce.over(group);
                ring = options.survives() ? ring.elastic() : ring;
                if (options.compression() != null) {
                    options.compression().apply(ring);
                }
                yield (options.proportional ? ring.proportional() : ring).build();
            }
            case GOSSIP -> Gossip.of(group);
            case PS -> {
                ParameterServer.Builder ps = ParameterServer.worker(group, rank).workers(workers)
                        .servers(options.servers()).consistency(options.consistency());
                yield (options.proportional ? ps.proportional() : ps).build();
            }
        };
    }

    // ---- threads ----

    static boolean isLocal(TeamOptions options) {
        return options.transport.equals(LOCAL);
    }

    /** Trains with threads of this process instead of processes. */
    void threads() {
        run.place(0, 1);
        int threads = run.threadCount(Math.max(1, Runtime.getRuntime().availableProcessors() / options.workers()));
        Split split = run.load(directory);
        Secret secret = Secret.random();
        TransportConfig transport = TransportConfig.of(LOCAL, secret).livenessTimeout(options.livenessTimeout());
        ThreadFactory factory = Thread.ofPlatform().daemon().name("starling-worker-", 0).factory();
        try (CoordinatorThread coordinator = Clusters.coordinator(LOCAL, rules(), options.livenessTimeout())
                .open(secret, null, options.workers() + options.servers());
                ExecutorService pool = Executors.newThreadPerTaskExecutor(factory)) {
            ExecutorCompletionService<Void> completions = new ExecutorCompletionService<>(pool);
            for (int i = 0; i < options.workers() + options.servers(); i++) {
                int rank = i;
                Callable<Void> body = () -> {
                    GroupConfig config = GroupConfig.of(transport, coordinator.address()).place(rank, options.workers())
                            .timeout(Clusters.TIMEOUT);
                    try (Group group = Group.join(config)) {
                        work(group, split, rank, options.workers());
                    }
                    return null;
                };
                try {
                    completions.submit(() -> Threads.with(threads, () -> unchecked(body)));
                } catch (OutOfMemoryError e) {
                    // Those that have started wait for it, until they lose the coordinator.
                    coordinator.close();
                    pool.shutdownNow();
                    throw new ThreadException("starling-worker-" + rank, e);
                }
            }
            awaitAll(completions);
        }
    }

    private static Void unchecked(Callable<Void> body) {
        try {
            return body.call();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new DistributedException("a worker failed: " + e, e);
        }
    }

    /** Waits for all threads. The first failure ends the other threads through their group, and is the one reported. */
    private void awaitAll(ExecutorCompletionService<Void> completions) {
        List<RuntimeException> failures = new ArrayList<>();
        for (int i = 0; i < options.workers() + options.servers(); i++) {
            try {
                completions.take().get();
            } catch (ExecutionException e) {
                failures.add(e.getCause() instanceof RuntimeException r ? r
                        : new DistributedException("a worker failed: " + e.getCause(), e.getCause()));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new DistributedException("interrupted while workers train", e);
            }
        }
        if (!failures.isEmpty()) {
            throw failures.getFirst();
        }
    }
}
