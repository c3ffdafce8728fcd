package dev.starling.distributed.ring;

import static dev.starling.distributed.ring.Runs.assertClose;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.CountingWire;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.distributed.codec.PowerSgd;
import dev.starling.distributed.codec.TopK;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Device;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Training with compressed gradients. */
@Timeout(120)
class CompressedRingTest {
    private static final int WIDE = 1000;

    static Stream<GradientCodec> codecs() {
        return Stream.of(new TopK(0.05), new PowerSgd(2));
    }

    private static void assertLearns(List<Outcome> all) {
        for (Outcome each : all) {
            assertClose(each, all.getFirst(), 0);
        }
        assertThat(all.getFirst().history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
    }

    private static Outcome train(RingAllReduce.Builder ring, Consumer<Trainer.Builder> more) {
        return Runs.train(Runs::mlp, ring.bucketBytes(512).build(), more);
    }

    @ParameterizedTest
    @MethodSource("codecs")
    void learns(GradientCodec codec) {
        List<Outcome> all = Cluster.local(3).run(group -> train(RingAllReduce.over(group).codec(codec), b -> { }));
        assertLearns(all);
        List<Outcome> again = Cluster.local(3).run(group -> train(RingAllReduce.over(group).codec(codec), b -> { }));
        assertClose(again.get(1), all.getFirst(), 0);
    }

    /** Batches of two rows for three ranks of different speed: a rank often has none. */
    @ParameterizedTest
    @MethodSource("codecs")
    void learnsFromAccumulatedAndEmptyBatches(GradientCodec codec) {
        assertLearns(Cluster.local(3).run(group -> Runs.train(Runs::mlp, 2,
                RingAllReduce.over(group).codec(codec).proportional().build(), b -> b.accumulate(8))));
    }

    /** Everything is sent, so the result is that of one process. */
    @Test
    void trainsAsOneProcessDoesWhereNothingIsLeftOut() {
        Outcome alone = Runs.train(Runs::mlp, new SingleProcess(), b -> { });
        List<Outcome> both = Cluster.local(2).run(group -> train(RingAllReduce.over(group).codec(new TopK(1)),
                b -> { }));
        assertClose(both.get(0), alone, 5e-5f);
        assertClose(both.get(1), both.get(0), 0);
    }

    @ParameterizedTest
    @MethodSource("codecs")
    void continuesWithoutALostRank(GradientCodec codec) {
        Cluster cluster = new Cluster(TransportConfig.of("local", Secret.random()), 3, Coordinator.OnLoss.REFORM);
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
                return train(RingAllReduce.over(group).codec(codec).elastic(), b -> b.listeners(leaves));
            } catch (IllegalStateException e) {
                return null;
            }
        });
        assertThat(all.get(2)).isNull();
        assertLearns(all.subList(0, 2));
        assertThat(all.get(0).history().last().step()).isEqualTo(Runs.STEPS);
    }

    /** The group's last rank has nothing to compress for. */
    @Test
    void trainsAloneAsOneProcessDoes() {
        Outcome alone = Runs.train(Runs::mlp, new SingleProcess(), b -> { });
        Outcome one = Cluster.local(1).run(group -> train(RingAllReduce.over(group).codec(new TopK(0.01)), b -> { }))
                .getFirst();
        assertClose(one, alone, 5e-5f);
    }

    @ParameterizedTest
    @MethodSource("codecs")
    void sendsFewBytes(GradientCodec codec) {
        double plain = bytesSent(r -> r);
        assertThat(bytesSent(r -> r.codec(codec)) / plain).isLessThan(codec instanceof TopK ? 0.15 : 0.2);
    }

    /** Counts the bytes that two ranks without shared memory send. */
    private static double bytesSent(UnaryOperator<RingAllReduce.Builder> options) {
        LongAdder bytes = new LongAdder();
        TransportConfig local = TransportConfig.of("local", Secret.random()).sharedMemory(false);
        new Cluster(local, 2, Coordinator.OnLoss.END).around(wire -> new CountingWire(wire, bytes)).run(group ->
                Runs.train(g -> Sequential.of(new Flatten(), Linear.of(36, WIDE, g), Linear.of(WIDE, 4, g)),
                        options.apply(RingAllReduce.over(group)).build(), b -> b.epochs(4)));
        return bytes.sum();
    }

    /** Gradients of a device whose memory the host cannot access are copied to the host. */
    @ParameterizedTest
    @MethodSource("codecs")
    void trainsOnDevicesAsOnTheHost(GradientCodec codec) {
        List<Outcome> host = Cluster.local(2).run(group -> train(RingAllReduce.over(group).codec(codec),
                b -> b.epochs(2)));
        List<Outcome> staged = Cluster.local(2).run(group -> Device.with(StagedDevices.of(group.rank()), () ->
                train(RingAllReduce.over(group).codec(codec), b -> b.epochs(2))));
        assertClose(staged.get(0), host.get(0), 0);
        assertClose(staged.get(1), host.get(0), 0);
    }

    @Test
    void namesCodecsThatDiffer() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> train(RingAllReduce.over(group)
                .codec(new TopK(group.rank() == 0 ? 0.5 : 0.25)), b -> { })))
                .isInstanceOf(DistributedException.class).hasMessageContaining("rank 1 sums gradients as f32 by "
                        + "TopK[fraction=0.25]").hasMessageContaining("0.5");
    }

    @Test
    void refusesToCompressTwice() {
        Cluster.local(1).run(group -> {
            assertThatThrownBy(() -> RingAllReduce.over(group).codec(new TopK(0.5)).halfPrecision().build())
                    .isInstanceOf(TensorException.class).hasMessageContaining("leave one of them out");
            return null;
        });
    }
}
