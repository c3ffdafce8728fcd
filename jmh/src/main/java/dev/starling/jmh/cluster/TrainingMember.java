package dev.starling.jmh.cluster;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.jmh.Inputs;
import dev.starling.jmh.Model;
import dev.starling.jmh.StarlingModel;
import dev.starling.jmh.Statistics;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** A worker that trains a convolutional network with others, on one thread. */
final class TrainingMember implements Member {
    /** The strategies to measure. One server is enough for so small a model. */
    static final List<String> STRATEGIES = List.of("ring", "gossip", "ps async", "ps sync");
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final int OVERLAP_BATCH = 32;
    private static final long PRECISE_NS = 60_000;

    private final int rank;
    private final Path directory;
    private final CoordinatorThread coordinator;
    private final Group group;
    private final StarlingModel model = new StarlingModel(Model.CNN);
    private final DistributionStrategy strategy;
    private TrainingStep step;
    private Tensor images;
    private Tensor labels;
    private Timeline timeline;
    private DistributionStrategy alone;
    private CoordinatorThread ownCoordinator;
    private Group ownGroup;
    private Tensor[] gradients;

    TrainingMember(TransportConfig transport, String strategyName, int rank, int world, Path directory)
            throws IOException, InterruptedException {
        this.rank = rank;
        this.directory = directory;
        Threads.set(1);
        coordinator = rank != 0 ? null : coordinator(transport, world + servers(strategyName));
        if (rank == 0) {
            SharedValues.publish(directory, "coordinator", coordinator.address());
        }
        group = Group.join(GroupConfig.of(transport, SharedValues.await(directory, "coordinator")).preferredRank(rank));
        strategy = switch (strategyName) {
            case "ring" -> RingAllReduce.over(group).build();
            case "ring bf16" -> RingAllReduce.over(group).halfPrecision().build();
            case "gossip" -> Gossip.of(group);
            case "ps async" -> servers(world, new Consistency.Asynchronous());
            case "ps sync" -> servers(world, new Consistency.Synchronous());
            default -> throw new IllegalArgumentException("unknown strategy: " + strategyName);
        };
        strategy.start(TrainingState.of(model.network(), model.optimizer()));
    }

    /** Returns the number of servers that a strategy needs. */
    static int servers(String strategyName) {
        return strategyName.startsWith("ps") ? 1 : 0;
    }

    private DistributionStrategy servers(int world, Consistency consistency) {
        return ParameterServer.worker(group, rank).workers(world).consistency(consistency).build();
    }

    private static CoordinatorThread coordinator(TransportConfig transport, int world) {
        return CoordinatorThread.start(Coordinator.open(transport, world, Coordinator.OnLoss.END, 1, TIMEOUT));
    }

    @Override
    public long time(Measure measure, int bytes, int runs) throws Exception {
        return switch (measure) {
            case TRAIN -> train(bytes, runs);
            case STEP_ALONE -> replay(runs, true, false);
            case STEP_LATE -> replay(runs, false, true);
            case STEP_OVERLAPPED -> replay(runs, false, false);
            case ALL_REDUCE, ROUND_TRIP, PUT -> throw new IllegalArgumentException(measure.label());
        };
    }

    private long train(int batch, int runs) {
        if (step == null) {
            images = Tensor.of(Inputs.normal(rank, Model.CNN.batchShape(batch)), Model.CNN.batchShape(batch));
            labels = Tensor.of(Inputs.labels(rank, batch), batch);
            step = new TrainingStep(model.network(), Loss.crossEntropy(), model.optimizer(), Generator.seeded(1),
                strategy);
        }
        if (strategy instanceof RingAllReduce) {
            group.collectives().barrier().await(TIMEOUT);
        }
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            step.run(images, labels);
            Collective.of(strategy).stops(false);
        }
        return System.nanoTime() - start;
    }

    /**
     * Runs steps before each of which the ranks wait for each other, and returns as many times the median of a step's
     * duration on the slowest rank. The ranks' waits for each other's computation are then equal in all kinds of steps.
     */
    private long replay(int runs, boolean single, boolean late) throws Exception {
        if (timeline == null) {
            prepare();
        }
        DistributionStrategy with = single ? alone : strategy;
        StreamsGradients stream = StreamsGradients.of(with);
        double[] nanos = new double[runs];
        for (int i = 0; i < runs; i++) {
            group.collectives().barrier().await(TIMEOUT);
            long start = System.nanoTime();
            long over = 0;
            for (int k = 0; k < timeline.order().length; k++) {
                over = pause(timeline.nanos()[k] - over);
                if (!late) {
                    stream.gradient(timeline.order()[k], gradients[timeline.order()[k]]);
                }
            }
            for (int k = 0; late && k < timeline.order().length; k++) {
                stream.gradient(timeline.order()[k], gradients[timeline.order()[k]]);
            }
            with.beforeStep(gradients.clone());
            nanos[i] = System.nanoTime() - start;
            with.afterStep();
            Collective.of(with).stops(false);
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment slowest = arena.allocateFrom(ValueLayout.JAVA_DOUBLE, nanos);
            group.collectives().allReduce(slowest, DType.F64, ReduceOp.MAX);
            return (long) (Statistics.median(slowest.toArray(ValueLayout.JAVA_DOUBLE)) * runs);
        }
    }

    /** Determines when the gradients of a real step become final: rank 0 measures while the others wait. */
    private void prepare() throws Exception {
        if (rank == 0) {
            SharedValues.publish(directory, "timeline", Timeline.measure(OVERLAP_BATCH).toString());
        }
        timeline = Timeline.parse(SharedValues.await(directory, "timeline"));
        gradients = model.optimizer().parameters().stream().map(p -> p.value().onesLike()).toArray(Tensor[]::new);
        TransportConfig local = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMinutes(10));
        ownCoordinator = coordinator(local, 1);
        ownGroup = Group.join(GroupConfig.of(local, ownCoordinator.address()));
        alone = RingAllReduce.over(ownGroup).build();
        alone.start(TrainingState.of(model.network(), model.optimizer()));
    }

    /** Waits, parked except for the last moment; returns the overrun, which the next wait makes up for. */
    private static long pause(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            if (left > PRECISE_NS) {
                LockSupport.parkNanos(left - PRECISE_NS);
            } else {
                Thread.onSpinWait();
            }
        }
        return System.nanoTime() - end;
    }

    @Override
    public void close() {
        strategy.close();
        group.close();
        if (alone != null) {
            alone.close();
            ownGroup.close();
            ownCoordinator.close();
        }
        if (coordinator != null) {
            coordinator.close();
        }
    }
}
