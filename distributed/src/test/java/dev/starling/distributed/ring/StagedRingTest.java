package dev.starling.distributed.ring;

import static dev.starling.distributed.ring.Runs.assertClose;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.distributed.ring.StagedDevices.Fault;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Phaser;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Gradients of devices that pass through memory of the host. */
@Timeout(120)
class StagedRingTest {
    @BeforeEach
    @AfterEach
    void forget() {
        StagedDevices.reset(Fault.NONE);
        StagedDevices.PINNED.set(0);
    }

    private static List<Outcome> ring(Cluster cluster, IntFunction<Device> device,
            UnaryOperator<RingAllReduce.Builder> options) {
        return cluster.run(group -> Device.with(device.apply(group.rank()), () -> Runs.train(Runs::cnn,
                options.apply(RingAllReduce.over(group).bucketBytes(512)).build(), b -> { })));
    }

    /** The same bits as on the host, because the devices compute in the same way. */
    @ParameterizedTest
    @CsvSource({"2, true, false", "3, true, false", "2, false, false", "3, false, true", "2, true, true"})
    void trainsAsRanksOnTheHostDo(int world, boolean shared, boolean half) {
        TransportConfig local = TransportConfig.of("local", Secret.random()).sharedMemory(shared)
                .livenessTimeout(Duration.ofSeconds(5));
        UnaryOperator<RingAllReduce.Builder> options = r -> half ? r.halfPrecision() : r;
        List<Outcome> expected = ring(new Cluster(local, world, Coordinator.OnLoss.END), _ -> Device.cpu(), options);
        List<Outcome> all = ring(new Cluster(local, world, Coordinator.OnLoss.END), StagedDevices::of, options);
        for (int rank = 0; rank < world; rank++) {
            assertClose(all.get(rank), expected.get(rank), 0);
        }
        // Two buckets or more in each step of each rank, in both directions.
        assertThat(StagedDevices.COPIES.get()).isGreaterThanOrEqualTo(4L * world * Runs.STEPS);
        assertThat(StagedDevices.PINNED).hasValue(0);
    }

    @Test
    void trainsTogetherWithRanksOnTheHost() {
        List<Outcome> expected = ring(Cluster.local(2), _ -> Device.cpu(), r -> r);
        List<Outcome> both = ring(Cluster.local(2), rank -> rank == 0 ? Device.cpu() : StagedDevices.of(1), r -> r);
        assertClose(both.get(0), expected.get(0), 0);
        assertClose(both.get(1), expected.get(1), 0);
    }

    @Test
    void endsWhenARankIsLost() {
        TrainingListener leaves = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == 25) {
                    throw new IllegalStateException("leaves");
                }
            }
        };
        assertThatThrownBy(() -> Cluster.local(2).run(group -> Device.with(StagedDevices.of(group.rank()), () ->
                Runs.train(Runs::cnn, RingAllReduce.over(group).build(),
                        b -> b.listeners(group.rank() == 1 ? leaves : new TrainingListener() { })))))
                .isInstanceOfSatisfying(PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(1));
        assertThat(StagedDevices.PINNED).hasValue(0);
    }

    @Test
    void continuesWithTheRemainingRanks() {
        Cluster cluster = new Cluster(TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(10)), 3,
                Coordinator.OnLoss.REFORM);
        List<Outcome> all = cluster.run(group -> {
            TrainingListener leaves = new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    if (progress.step() == 25 && group.rank() == 2) {
                        group.locked(() -> group.transport().close());
                        throw new IllegalStateException("leaves");
                    }
                }
            };
            try {
                return Device.with(StagedDevices.of(group.rank()), () -> Runs.train(Runs::cnn,
                        RingAllReduce.over(group).elastic().build(), b -> b.listeners(leaves)));
            } catch (IllegalStateException e) {
                return null;
            }
        });
        assertClose(all.get(1), all.get(0), 0);
        assertThat(all.get(0).history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
        assertThat(all.get(2)).isNull();
    }

    /** Takes two steps, the second of which fails, and returns the outcome on each rank. */
    private static List<Throwable> twoSteps(Fault fault, Duration timeout) {
        Phaser together = new Phaser(2);
        return Cluster.local(2).timeout(timeout).run(group -> Device.with(StagedDevices.of(group.rank()), () -> {
            Generator random = Generator.seeded(3);
            try (Layer net = Sequential.of(new Flatten(), Linear.of(4, 3, random));
                    Optimizer sgd = Sgd.over(net).rate(0.1).build();
                    RingAllReduce ring = RingAllReduce.over(group).build();
                    TrainingStep step = new TrainingStep(net, Loss.crossEntropy(), sgd, random, ring)) {
                ring.start(TrainingState.of(net, sgd));
                Tensor x = Generator.seeded(1 + group.rank()).uniform(2, 4);
                Tensor target = Tensor.of(new long[] {0, 2}, 2);
                step.run(x, target);
                float[] before = sgd.parameters().getFirst().value().toFloats();
                // A barrier outside of the group, because the rank that leaves the group first could disturb the other.
                together.arriveAndAwaitAdvance();
                StagedDevices.reset(fault);
                Throwable thrown = catchThrowable(() -> step.run(x, target));
                assertThat(sgd.parameters().getFirst().value().toFloats()).containsExactly(before);
                return thrown;
            }
        }));
    }

    @Test
    void notifiesAllRanksOfAFailedCopy() {
        for (Throwable thrown : twoSteps(Fault.FAILING, Duration.ofSeconds(10))) {
            assertThat(thrown).isInstanceOf(DistributedException.class).hasMessageContaining("it broke");
        }
        assertThat(StagedDevices.PINNED).hasValue(0);
    }

    @Test
    void doesNotWaitForeverForACopy() {
        for (Throwable thrown : twoSteps(Fault.HANGING, Duration.ofSeconds(1))) {
            assertThat(thrown).isInstanceOf(DistributedException.class)
                    .hasMessageMatching("(?s).*elements of rank [01] for .*gradient bucket .*are not ready.*");
        }
    }
}
