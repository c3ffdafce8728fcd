package dev.starling.distributed.ring;

import static dev.starling.distributed.ring.Runs.assertClose;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Membership changes during training. */
@Timeout(120)
class ElasticTest {
    private static final float ROUNDING = 5e-5f;

    private final TransportConfig transport = TransportConfig.of("local", Secret.random())
            .livenessTimeout(Duration.ofSeconds(10));
    private CoordinatorThread coordinator;
    private Path checkpoints;

    /** Ends a rank as if its process had been killed. */
    private static final class Killed extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /** A listener that injects faults into a rank. */
    private static class FaultListener implements TrainingListener {
        Membership group;

        /** Called in each forward pass. */
        void forward(long step) {
        }

        /** Waits for an effect of other ranks on the group. */
        void until(BooleanSupplier condition) {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (!condition.getAsBoolean()) {
                assertThat(System.nanoTime()).isLessThan(end);
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
            }
        }

        void kill() {
            group.locked(() -> group.transport().close());
            throw new Killed();
        }
    }

    private record FaultLayer(Layer inner, FaultListener listener, Progress[] progress) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            if (progress[0] != null) {
                listener.forward(progress[0].step());
            }
            return inner.forward(x);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("inner", inner);
        }
    }

    private void startCoordinator(int world, Coordinator.OnLoss onLoss) {
        coordinator = CoordinatorThread.start(Coordinator.open(transport, world, onLoss, 1, Duration.ofSeconds(30)));
    }

    @AfterEach
    void stopCoordinator() {
        coordinator.close();
    }

    /** Starts a rank; its result is {@code null} if it was killed. */
    private FutureTask<Outcome> start(int rank, boolean elastic, FaultListener listener) {
        Callable<Outcome> body = () -> {
            GroupConfig config = GroupConfig.of(transport, coordinator.address()).preferredRank(rank)
                    .timeout(Duration.ofSeconds(20));
            try (Membership group = Membership.join(config)) {
                listener.group = group;
                RingAllReduce.Builder ring = RingAllReduce.over(group).bucketBytes(512);
                Progress[] progress = new Progress[1];
                return Runs.train(g -> new FaultLayer(Runs.mlp(g), listener, progress),
                        (elastic ? ring.elastic() : ring).build(),
                        b -> {
                            b.listeners(new TrainingListener() {
                                @Override
                                public void started(Progress of) {
                                    progress[0] = of;
                                }
                            }, listener);
                            if (checkpoints != null) {
                                // One directory for each rank: a rank killed here still finishes its last write, unlike
                                // a killed process.
                                b.checkpoints(checkpoints.resolve("of-" + rank), 7);
                            }
                        });
            } catch (Killed e) {
                return null;
            }
        };
        FutureTask<Outcome> task = new FutureTask<>(body);
        Thread.ofPlatform().daemon().name("rank-" + rank).start(task);
        return task;
    }

    private static Outcome outcome(FutureTask<Outcome> task) throws Exception {
        return task.get(60, TimeUnit.SECONDS);
    }

    private static Outcome alone() {
        return Runs.train(g -> new FaultLayer(Runs.mlp(g), new FaultListener(), new Progress[1]),
                new SingleProcess(), b -> { });
    }

    private static FaultListener killedIn(long step) {
        return new FaultListener() {
            @Override
            void forward(long at) {
                if (at == step) {
                    kill();
                }
            }
        };
    }

    private static void assertWhole(Outcome outcome, Outcome alone) {
        assertClose(outcome, alone, ROUNDING);
        assertThat(outcome.history().last().step()).isEqualTo(Runs.STEPS);
        assertThat(outcome.history().epochs()).extracting(EpochReport::epoch)
                .containsExactly(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    }

    @ParameterizedTest
    @CsvSource({"0, 17", "1, 17", "2, 0", "2, 11", "1, 109"})
    void continuesWithoutALostRank(int lost, long step) throws Exception {
        Outcome alone = alone();
        startCoordinator(3, Coordinator.OnLoss.REFORM);
        List<FutureTask<Outcome>> ranks = new ArrayList<>();
        for (int rank = 0; rank < 3; rank++) {
            ranks.add(start(rank, true, rank == lost ? killedIn(step) : new FaultListener()));
        }
        assertThat(outcome(ranks.remove(lost))).isNull();
        Outcome first = outcome(ranks.get(0));
        assertWhole(first, alone);
        assertClose(outcome(ranks.get(1)), first, 0);
    }

    /**
     * The former rank 0 would have read the checkpoint; its loss must not make another rank start from scratch and
     * overwrite it.
     */
    @Test
    void resumesFromACheckpointWithoutTheFormerRankZero(@TempDir Path directory) throws Exception {
        Runs.train(Runs::mlp, new SingleProcess(), b -> b.epochs(4).checkpoints(directory));
        startCoordinator(2, Coordinator.OnLoss.REFORM);
        CountDownLatch isOther = new CountDownLatch(1);
        FutureTask<Void> first = new FutureTask<>(() -> {
            GroupConfig config = GroupConfig.of(transport, coordinator.address()).preferredRank(0);
            try (Membership group = Membership.join(config)) {
                assertThat(isOther.await(20, TimeUnit.SECONDS)).isTrue();
                // The other rank waits for it to start.
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
                group.locked(() -> group.transport().close());
            }
            return null;
        });
        Thread.ofPlatform().daemon().name("rank-0").start(first);
        GroupConfig second = GroupConfig.of(transport, coordinator.address()).preferredRank(1)
                .timeout(Duration.ofSeconds(20));
        try (Membership group = Membership.join(second)) {
            Outcome outcome = Runs.train(Runs::mlp, RingAllReduce.over(group).elastic().build(), b -> {
                b.checkpoints(directory).resume();
                isOther.countDown();
            });
            assertThat(outcome.history().epochs()).extracting(EpochReport::epoch).containsExactly(5, 6, 7, 8, 9, 10);
            assertClose(outcome, Runs.train(Runs::mlp, new SingleProcess(), b -> { }), ROUNDING);
        }
        first.get(20, TimeUnit.SECONDS);
    }

    @Test
    void continuesAlone() throws Exception {
        startCoordinator(3, Coordinator.OnLoss.REFORM);
        FutureTask<Outcome> zero = start(0, true, killedIn(30));
        FutureTask<Outcome> one = start(1, true, killedIn(31));
        FutureTask<Outcome> two = start(2, true, new FaultListener());
        outcome(zero);
        outcome(one);
        assertWhole(outcome(two), alone());
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
    void continuesWheneverARankIsLost(long seed, @TempDir Path directory) throws Exception {
        checkpoints = directory;
        Random random = new Random(seed);
        Outcome alone = alone();
        startCoordinator(3, Coordinator.OnLoss.REFORM);
        int lost = random.nextInt(3);
        int where = random.nextInt(4);
        long step = 1 + random.nextInt(Runs.STEPS - 20);
        List<FutureTask<Outcome>> ranks = new ArrayList<>();
        for (int rank = 0; rank < 3; rank++) {
            long delayNs = random.nextInt(2_000_000);
            ranks.add(start(rank, true, rank == lost ? dyingAt(where, step) : new FaultListener() {
                @Override
                void forward(long at) {
                    if (at == step) {
                        LockSupport.parkNanos(delayNs);
                    }
                }
            }));
        }
        assertThat(outcome(ranks.remove(lost))).isNull();
        Outcome first = outcome(ranks.get(0));
        assertWhole(first, alone);
        assertClose(outcome(ranks.get(1)), first, 0);
        assertThat(Checkpoint.latest(directory.resolve(lost == 0 ? "of-1" : "of-0")).orElseThrow().step())
                .isEqualTo(Runs.STEPS);
    }

    /**
     * Kills the rank, or makes it leave, before its part of a step, after it, or after the measurement of an epoch.
     */
    private static FaultListener dyingAt(int where, long step) {
        return new FaultListener() {
            @Override
            void forward(long at) {
                if (where == 0 && at == step) {
                    kill();
                }
            }

            @Override
            public void stepEnded(Progress progress) {
                if (where == 1 && progress.step() == step) {
                    kill();
                }
                if (where == 2 && progress.step() == step) {
                    throw new Killed();
                }
            }

            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                if (where == 3 && progress.step() >= step) {
                    kill();
                }
            }
        };
    }

    @Test
    void acceptsANewMember() throws Exception {
        Outcome alone = alone();
        startCoordinator(2, Coordinator.OnLoss.REFORM);
        CountDownLatch reached = new CountDownLatch(1);
        CountDownLatch joined = new CountDownLatch(1);
        FaultListener waiting = new FaultListener() {
            @Override
            void forward(long step) {
                if (step == 25) {
                    reached.countDown();
                    await(joined);
                }
            }
        };
        FutureTask<Outcome> zero = start(0, true, waiting);
        FutureTask<Outcome> one = start(1, true, new FaultListener());
        assertThat(reached.await(20, TimeUnit.SECONDS)).isTrue();
        List<Integer> steps = new ArrayList<>();
        FutureTask<Outcome> two = start(-1, true, new FaultListener() {
            @Override
            public void started(Progress progress) {
                steps.add((int) progress.step());
            }
        });
        waiting.until(() -> waiting.group.epoch() > 1);
        joined.countDown();
        Outcome first = outcome(zero);
        assertWhole(first, alone);
        assertClose(outcome(one), first, 0);
        assertClose(outcome(two), first, 0);
        assertThat(steps).hasSize(1).allSatisfy(s -> assertThat(s).isBetween(25, 26));
    }

    @Test
    void replacesALostRank() throws Exception {
        Outcome alone = alone();
        startCoordinator(2, Coordinator.OnLoss.REFORM);
        FutureTask<Outcome> zero = start(0, true, new FaultListener() {
            @Override
            void forward(long step) {
                if (step == 60) {
                    until(() -> group.epoch() > 1 && group.world() == 2);
                }
            }
        });
        assertThat(outcome(start(1, true, killedIn(20)))).isNull();
        FutureTask<Outcome> two = start(-1, true, new FaultListener());
        Outcome first = outcome(zero);
        assertWhole(first, alone);
        assertClose(outcome(two), first, 0);
        assertThat(outcome(two).history().epochs().getFirst().epoch()).isGreaterThan(1);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await(20, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void endsOnAllRanksAfterALossIfNotElastic() throws Exception {
        startCoordinator(3, Coordinator.OnLoss.END);
        Map<Integer, Long> ended = new ConcurrentHashMap<>();
        List<FutureTask<Outcome>> ranks = new ArrayList<>();
        for (int rank = 0; rank < 3; rank++) {
            int number = rank;
            ranks.add(start(rank, false, rank == 1 ? killedIn(40) : new FaultListener() {
                @Override
                public void ended(Progress progress) {
                    ended.put(number, progress.step());
                }
            }));
        }
        for (int rank : new int[] {0, 2}) {
            assertThatThrownBy(() -> outcome(ranks.get(rank))).isInstanceOf(ExecutionException.class)
                    .cause().isInstanceOf(PeerLostException.class).hasMessageContaining("rank 1 is lost, last heard");
        }
        // A rank that had yet to receive its part of step 40's sums when the link broke has not taken that step.
        assertThat(ended).containsOnlyKeys(0, 2).allSatisfy((rank, step) -> assertThat(step).isBetween(39L, 40L));
    }
}
