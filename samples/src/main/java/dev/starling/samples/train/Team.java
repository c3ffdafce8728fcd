package dev.starling.samples.train;

import dev.starling.distributed.CoordinatorThread;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.launch.Launcher;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
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

/** Trains a sample with several workers: processes that it launches, processes that somebody launched, or threads. */
final class Team {
    private static final String LOCAL = "local";

    private final TrainingRun run;
    private final TeamOptions how;
    private final DataDirectory directory;
    private final PrintWriter out;

    Team(TrainingRun run, TeamOptions how, DataDirectory directory, PrintWriter out) {
        this.run = run;
        this.how = how;
        this.directory = directory;
        this.out = out;
    }

    /** Checks what was asked for, and returns what is wrong with it or {@code null}. */
    static String problem(TeamOptions how, LaunchedProcess me) {
        String value = badValue(how);
        if (value != null) {
            return value;
        }
        String idle = idleOption(how);
        if (idle != null) {
            return idle;
        }
        if (me != null && how.workers > 0 && how.workers != me.workers()) {
            return "--workers=" + how.workers + ", but this process was launched as one of " + me.workers()
                    + " workers: leave --workers away, or start it without a launcher";
        }
        if (me != null && how.servers() != me.servers()) {
            return "--strategy " + how.strategy() + " needs " + how.servers() + " servers, but this process was "
                    + "launched with " + me.servers() + ": say run --servers " + how.servers();
        }
        if (me == null && how.isAsked() && how.workers == 0) {
            return "--strategy needs --workers N";
        }
        String alone = me == null && how.workers == 0 ? teamOption(how) : null;
        return alone == null ? null : alone + " is for training together: say --workers N, too";
    }

    private static String badValue(TeamOptions how) {
        if (how.workers < 0) {
            return "--workers must be positive, got " + how.workers;
        }
        if (how.servers != null && how.servers < 1) {
            return "--servers must be positive, got " + how.servers;
        }
        if (how.staleness != null && how.staleness < 0) {
            return "--staleness must be 0, where all take steps together, or more, got " + how.staleness
                    + ": leave it away if nobody is to wait";
        }
        if (how.restarts < 0) {
            return "--restarts must not be negative, got " + how.restarts;
        }
        return how.silenceSeconds > 0 ? null : "--silence must be positive, got " + how.silenceSeconds;
    }

    /** Returns what is wrong with an option that the strategy or the transport has no use for, or {@code null}. */
    private static String idleOption(TeamOptions how) {
        boolean isPs = how.strategy() == TeamOptions.Strategy.PS;
        String none = " has no servers: leave it away, or take --strategy ps";
        if (how.staleness != null && !isPs) {
            return "--staleness is for ps, and " + how.said() + none;
        }
        if (how.servers != null && !isPs) {
            return "--servers is for ps, and " + how.said() + none;
        }
        if (how.serverData != null && !isPs) {
            return "--server-data is for ps, and " + how.said() + none;
        }
        if (how.half && how.strategy() != TeamOptions.Strategy.RING) {
            return "--half is for ring, and " + how.said() + " sends f32: leave it away, or take --strategy ring";
        }
        if (how.proportional && !how.sharesBatches()) {
            return "--proportional divides batches that all workers share, but with " + how.said()
                    + " each takes batches of its own: take ring, or ps --staleness 0";
        }
        if (how.restarts > 0 && isLocal(how)) {
            return "--restarts starts processes again, and --transport local has threads: leave it away, or take "
                    + "--transport aeron";
        }
        if (how.isSynchronous() && (how.elastic || how.restarts > 0)) {
            return (how.elastic ? "--elastic" : "--restarts") + " does not go with " + how.said() + ", which ends when "
                    + "a worker or a server is lost: leave it away, and go on from --checkpoints with --resume; or "
                    + "take ring, or ps without --staleness 0";
        }
        return null;
    }

    /** Returns an option that says how workers train together, or {@code null} if there is none. */
    private static String teamOption(TeamOptions how) {
        return how.elastic ? "--elastic" : how.restarts > 0 ? "--restarts" : how.half ? "--half"
                : how.proportional ? "--proportional" : isLocal(how) ? "--transport local" : null;
    }

    // ---- processes ----

    /** Launches this very command N times, and waits. */
    int launch(List<String> arguments) {
        run.prepare(directory);
        return Launcher.ofThisProgram(arguments.toArray(String[]::new)).processes(how.workers + how.servers())
                .servers(how.servers()).restarts(how.restarts).tolerate(how.survives() ? how.workers - 1 : 0)
                .coordinator(Clusters.coordinator(how.transport, how.onLoss(), how.silence()))
                .output(Launcher.Output.FIRST_RANK).forwardSignals().run();
    }

    /** Does what this process, one of those launched, has to do. */
    void member(LaunchedProcess me) {
        run.threads(me.threads());
        run.place(me.localRank(), Math.max(1, me.localWorld() - me.servers()));
        Split split = me.isServer() ? null : run.load(directory);
        try (Clusters.Ending coordinator = Clusters.coordinator(me, how.transport, how.onLoss(), how.silence());
                Group group = Clusters.join(me, how.transport, how.silence())) {
            work(group, split, me.rank(), me.workers());
        }
    }

    /** Trains or, with one of the last ranks, serves. */
    private void work(Group group, Split split, int rank, int workers) {
        if (rank >= workers) {
            ParameterServer.serve(group, rank - workers, ServerConfig.inMemory().directory(how.serverData));
            return;
        }
        try (DistributionStrategy strategy = strategy(group, rank, workers)) {
            run.train(split, strategy, rank == 0, out);
        }
    }

    private DistributionStrategy strategy(Group group, int rank, int workers) {
        return switch (how.strategy()) {
            case RING -> {
                RingAllReduce.Builder ring = RingAllReduce.over(group);
                ring = how.survives() ? ring.elastic() : ring;
                ring = how.half ? ring.halfPrecision() : ring;
                yield (how.proportional ? ring.proportional() : ring).build();
            }
            case GOSSIP -> Gossip.of(group);
            case PS -> {
                ParameterServer.Builder ps = ParameterServer.worker(group, rank).workers(workers)
                        .servers(how.servers()).consistency(how.consistency());
                yield (how.proportional ? ps.proportional() : ps).build();
            }
        };
    }

    // ---- threads ----

    static boolean isLocal(TeamOptions how) {
        return how.transport.equals(LOCAL);
    }

    /** Trains with threads of this process in place of processes. */
    void threads() {
        run.place(0, 1);
        int threads = Math.max(1, Runtime.getRuntime().availableProcessors() / how.workers);
        Split split = run.load(directory);
        Secret secret = Secret.random();
        TransportConfig transport = TransportConfig.of(LOCAL, secret).silence(how.silence());
        ThreadFactory factory = Thread.ofPlatform().daemon().name("starling-worker-", 0).factory();
        try (CoordinatorThread coordinator = Clusters.coordinator(LOCAL, how.onLoss(), how.silence())
                .open(secret, null, how.workers + how.servers());
                ExecutorService pool = Executors.newThreadPerTaskExecutor(factory)) {
            ExecutorCompletionService<Void> ended = new ExecutorCompletionService<>(pool);
            for (int i = 0; i < how.workers + how.servers(); i++) {
                int rank = i;
                Callable<Void> body = () -> {
                    GroupConfig config = GroupConfig.of(transport, coordinator.address()).preferredRank(rank)
                            .timeout(Clusters.PATIENCE);
                    try (Group group = Group.join(config)) {
                        work(group, split, rank, how.workers);
                    }
                    return null;
                };
                ended.submit(() -> Threads.with(threads, () -> unchecked(body)));
            }
            awaitAll(ended);
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

    /** Waits for all; the first failure, which ends the others by way of their group, is the one to tell of. */
    private void awaitAll(ExecutorCompletionService<Void> ended) {
        List<RuntimeException> failures = new ArrayList<>();
        for (int i = 0; i < how.workers + how.servers(); i++) {
            try {
                ended.take().get();
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
