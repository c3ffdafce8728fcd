package dev.starling.distributed.soak;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Two clusters in one process, each with its own secret, do not affect each other. */
@Timeout(120)
class TwoClustersTest {
    private static final int WORLD = 2;
    private static final long STEPS = 200;
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    /** A group of threads that trains until it is stopped, or one of the threads dies. */
    private static final class TrainingCluster implements AutoCloseable {
        private final AtomicLong steps = new AtomicLong();
        private final AtomicBoolean enough = new AtomicBoolean();
        private final AtomicBoolean dies = new AtomicBoolean();
        private final AtomicLong epochs = new AtomicLong();
        private final CoordinatorThread coordinator;
        /** The workers, and the server if there is one. */
        private final List<FutureTask<float[]>> ranks = new ArrayList<>();

        TrainingCluster(String wire, String strategy) {
            TransportConfig transport = Cluster.transport(wire);
            OnLoss onLoss = strategy.equals("ring") ? OnLoss.END : OnLoss.REFORM;
            int members = strategy.startsWith("ps") ? WORLD + 1 : WORLD;
            coordinator = CoordinatorThread.start(Coordinator.open(transport, members, onLoss, 1, TIMEOUT));
            for (int rank = 0; rank < members; rank++) {
                GroupConfig config = GroupConfig.of(transport, coordinator.address()).place(rank, WORLD)
                        .timeout(TIMEOUT);
                boolean last = rank == WORLD - 1;
                FutureTask<float[]> task = new FutureTask<>(() -> {
                    try (Membership group = Membership.join(config)) {
                        if (group.rank() >= WORLD) {
                            ParameterServer.serve(group, ServerConfig.inMemory());
                            epochs.accumulateAndGet(group.epoch(), Math::max);
                            return new float[0];
                        }
                        float[] weights = LongRun.train(group, strategy, step -> {
                            steps.incrementAndGet();
                            if (last && dies.get()) {
                                group.locked(() -> group.transport().close());
                                throw new IllegalStateException("killed");
                            }
                        }, enough::get);
                        epochs.accumulateAndGet(group.epoch(), Math::max);
                        return weights;
                    }
                });
                ranks.add(task);
                Thread.ofPlatform().daemon().name("rank-" + rank).start(task);
            }
        }

        void awaitSteps(long more) throws InterruptedException {
            long until = steps.get() + more;
            for (long end = System.nanoTime() + TIMEOUT.toNanos(); steps.get() < until;) {
                assertThat(System.nanoTime()).as("steps stall at %d", steps.get()).isLessThan(end);
                Thread.sleep(1);
            }
        }

        List<float[]> end() throws Exception {
            enough.set(true);
            List<float[]> weights = new ArrayList<>();
            for (FutureTask<float[]> rank : ranks) {
                weights.add(rank.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS));
            }
            return weights;
        }

        /** Returns the failure of a rank, or {@code null}. */
        Throwable failure(int rank) throws Exception {
            try {
                ranks.get(rank).get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
                return null;
            } catch (ExecutionException e) {
                return e.getCause();
            }
        }

        @Override
        public void close() {
            enough.set(true);
            coordinator.close();
        }
    }

    @ParameterizedTest
    @CsvSource({"local, ring, gossip", "local, gossip, ring", "local, ring, ring", "local, ps async, ring",
        "aeron, ring, gossip", "aeron, gossip, ring", "aeron, ring, ps async", "aeron, ps async, gossip",
        "aeron, ps sync, ps async", "ucx, ring, gossip", "ucx, ps async, ring"})
    void isUnaffectedByTheDeathOfTheOther(String wire, String lives, String dies) throws Exception {
        try (TrainingCluster one = new TrainingCluster(wire, lives); TrainingCluster other = new TrainingCluster(wire,
                dies)) {
            one.awaitSteps(STEPS);
            other.awaitSteps(STEPS);
            other.dies.set(true);
            assertThat(other.failure(WORLD - 1)).hasMessage("killed");
            if (dies.equals("ring")) {
                assertThat(other.failure(0)).isInstanceOf(PeerLostException.class);
            } else {
                other.awaitSteps(STEPS);
                other.enough.set(true);
                assertThat(other.failure(0)).isNull();
                if (other.ranks.size() > WORLD) {
                    assertThat(other.failure(WORLD)).as("of the server").isNull();
                }
            }
            one.awaitSteps(STEPS);
            List<float[]> weights = one.end();
            assertThat(one.epochs).as("epochs of the unaffected cluster").hasValue(1);
            if (lives.equals("ring") || lives.equals("ps sync")) {
                assertThat(weights.get(1)).containsExactly(weights.get(0));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "aeron", "tcp", "ucx"})
    void refusesMembersOfTheOther(String wire) throws Exception {
        try (TrainingCluster one = new TrainingCluster(wire,
                "elastic"); TrainingCluster other = new TrainingCluster(wire, "gossip")) {
            one.awaitSteps(STEPS);
            TransportConfig stranger = Cluster.transport(wire);
            for (TrainingCluster each : List.of(one, other)) {
                DistributedException refused = catchThrowableOfType(
                        DistributedException.class, () -> Membership.join(GroupConfig.of(stranger,
                                each.coordinator.address()).joinTimeout(Duration.ofSeconds(10))).close());
                assertThat(refused).hasMessageContaining("secret");
            }
            one.awaitSteps(STEPS);
            other.awaitSteps(STEPS);
            assertThat(one.end()).hasSize(WORLD);
            assertThat(other.end()).hasSize(WORLD);
            assertThat(one.epochs).hasValue(1);
            assertThat(other.epochs).hasValue(1);
        }
    }
}
