package dev.starling.distributed.launch;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One process of a training of a tiny network, or its coordinator; tests kill and stop it. Prints each step that it
 * takes, how many members each epoch has, the loss of the coordinator, and at the end either the result, as bits, or
 * the failure.
 */
final class TrainingProgram {
    private static final int BATCHES = 16;
    private static final int BATCH = 24;
    private static final long PACE_NS = 5_000_000;
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static volatile long lastStepNs;

    private TrainingProgram() {
    }

    /**
     * Trains.
     *
     * @param arguments {@code ring}, {@code elastic}, {@code gossip}, {@code ps}, {@code ps-stale} or {@code ps-sync};
     *     the transport; the liveness timeout in ms; the timeout in ms; a file that ends the run when it appears. Or
     *     {@code coordinator}, the transport, the liveness timeout, the action on a loss, the number of processes, a
     *     port
     */
    public static void main(String[] arguments) {
        Duration livenessTimeout = Duration.ofMillis(Integer.parseInt(arguments[2]));
        try {
            if (arguments[0].equals("coordinator")) {
                coordinate(arguments[1], livenessTimeout, Coordinator.OnLoss.valueOf(arguments[3]),
                        Integer.parseInt(arguments[4]), Integer.parseInt(arguments[5]));
            } else {
                train(LaunchedProcess.fromEnvironment().orElseThrow(), arguments, livenessTimeout);
            }
        } catch (RunEndedException | TransportException e) {
            if (e instanceof PeerLostException lost) {
                System.out.println("lost " + lost.rank() + ' ' + lost.silentFor().toMillis() + ' '
                        + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - lastStepNs));
            }
            System.out.println("failed: " + e.getClass().getSimpleName() + ": " + e.getMessage());
            System.exit(1);
        }
    }

    /** Returns the configuration of a transport; UCX uses TCP. */
    static TransportConfig transport(String name, Secret secret) {
        TransportConfig config = TransportConfig.of(name, secret);
        return name.equals("ucx") ? config.option("tls", "tcp") : config;
    }

    private static void coordinate(String transport, Duration livenessTimeout, Coordinator.OnLoss onLoss, int world,
            int port) {
        TransportConfig config = transport(transport, Secret.ofHex(System.getenv(LaunchedProcess.SECRET)))
                .livenessTimeout(livenessTimeout).at("127.0.0.1", port);
        String directory = System.getenv(LaunchedProcess.DIRECTORY);
        if (directory != null) {
            config = config.directory(Path.of(directory));
        }
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, world, onLoss, 1,
                TIMEOUT))) {
            System.out.println("coordinator " + coordinator.address());
            coordinator.awaitDone(Duration.ofMinutes(1));
        }
    }

    private static void train(LaunchedProcess me, String[] arguments, Duration livenessTimeout) {
        Threads.set(1);
        TransportConfig transport = transport(arguments[1], me.secret()).directory(me.directory())
                .livenessTimeout(livenessTimeout);
        GroupConfig config = GroupConfig.of(transport, me.coordinator()).place(me.rank(), me.workers())
                .joinTimeout(TIMEOUT).timeout(Duration.ofMillis(Integer.parseInt(arguments[3])));
        if (me.isServer()) {
            serve(me, config, Path.of(arguments[4]).resolveSibling("server"));
            return;
        }
        Generator same = Generator.seeded(1);
        Tensor x = same.normal(BATCHES * BATCH, 8);
        Tensor y = x.sum(1).gt(0).to(DType.I64);
        try (Membership group = join(config);
                Layer model = Sequential.of(Linear.of(8, 16, same), new Relu(), Linear.of(16, 2, same));
                Optimizer sgd = Sgd.over(model).rate(0.1).momentum(0.9).build();
                DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(BATCH).workers(0).shuffle().build();
                DistributionStrategy strategy = strategy(arguments[0], group, me)) {
            Trainer trainer = Trainer.of(model, Loss.crossEntropy(), sgd).data(data).strategy(strategy)
                    .epochs(Integer.MAX_VALUE).listeners(new Pace(group, Path.of(arguments[4]))).build();
            trainer.run();
            int bits = model.state().values().stream().mapToInt(p -> Arrays.hashCode(p.value().toFloats())).sum();
            System.out.println("done: rank " + strategy.rank() + " of " + strategy.world() + ", "
                    + trainer.progress().step() + " steps, bits " + Integer.toHexString(bits)
                    + (strategy instanceof Gossip gossip ? ", mixed " + gossip.mixed() : ""));
        }
    }

    private static Membership join(GroupConfig config) {
        Membership group = Membership.join(config);
        group.onChange(() -> {
            if (group.failure() == null) {
                System.out.println("members " + group.world());
            }
        });
        return group;
    }

    private static void serve(LaunchedProcess me, GroupConfig config, Path directory) {
        try (Membership group = join(config)) {
            ParameterServer.serve(group, ServerConfig.in(directory));
        }
        System.out.println("done");
    }

    private static DistributionStrategy strategy(String name, Membership group, LaunchedProcess me) {
        return switch (name) {
            case "ps" -> servers(group, me, new Consistency.Asynchronous());
            case "ps-stale" -> servers(group, me, new Consistency.Stale(2));
            case "ps-sync" -> servers(group, me, new Consistency.Synchronous());
            case "ring" -> RingAllReduce.over(group).build();
            case "elastic" -> RingAllReduce.over(group).elastic().build();
            default -> Gossip.of(group);
        };
    }

    private static DistributionStrategy servers(Membership group, LaunchedProcess me, Consistency consistency) {
        return ParameterServer.worker(group, me.rank()).workers(me.workers()).servers(me.servers())
                .consistency(consistency).build();
    }

    private record Pace(Membership group, Path stop) implements TrainingListener {
        @Override
        public void stepEnded(Progress progress) {
            lastStepNs = System.nanoTime();
            System.out.println("step " + progress.step() + (group.isCoordinatorLost() ? " without coordinator" : ""));
            LockSupport.parkNanos(PACE_NS);
            if (Files.exists(stop)) {
                progress.stop();
            }
        }
    }
}
