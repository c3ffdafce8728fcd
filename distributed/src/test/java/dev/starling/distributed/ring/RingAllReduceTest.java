package dev.starling.distributed.ring;

import static dev.starling.distributed.ring.Runs.assertClose;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.CountingWire;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.data.Share;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class RingAllReduceTest {
    private static final float ROUNDING = 5e-5f;
    /** Parameters of a network whose gradients make up most of the traffic. */
    private static final int WIDE = 36 * 1000 + 1000 + 1000 * 4 + 4;

    private static List<Outcome> ring(int world, Function<Generator, Layer> network,
            UnaryOperator<RingAllReduce.Builder> options, Consumer<Trainer.Builder> more) {
        return Cluster.local(world).run(group ->
                Runs.train(network, options.apply(RingAllReduce.over(group)).build(), more));
    }

    private static Outcome alone(Function<Generator, Layer> network) {
        return Runs.train(network, new SingleProcess(), b -> { });
    }

    // ---- equivalence ----

    private static void assertEquivalent(int world, Function<Generator, Layer> network) {
        Outcome alone = alone(network);
        // Buckets small enough to have several.
        List<Outcome> all = ring(world, network, r -> r.bucketBytes(512), b -> { });
        assertClose(all.getFirst(), alone, ROUNDING);
        for (Outcome each : all) {
            assertClose(each, all.getFirst(), 0);
            assertThat(each.history().last().step()).isEqualTo(Runs.STEPS);
            assertThat(each.history().last().training().loss()).isCloseTo(alone.history().last().training().loss(),
                    within(1e-4));
            assertThat(each.history().last().heldOut()).isEqualTo(all.getFirst().history().last().heldOut());
            assertThat(each.history().last().heldOut().orElseThrow().examples()).isEqualTo(100);
        }
        assertThat(alone.history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
        List<Outcome> again = ring(world, network, r -> r.bucketBytes(512), b -> { });
        assertClose(again.getLast(), all.getFirst(), 0);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void trainsAPerceptronAsOneProcessDoes(int world) {
        assertEquivalent(world, Runs::mlp);
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3, 4})
    void trainsAConvolutionalNetworkAsOneProcessDoes(int world) {
        assertEquivalent(world, Runs::cnn);
    }

    @ParameterizedTest
    @CsvSource({"local, 2", "local, 3", "aeron, 2", "aeron, 3", "ucx, 2"})
    void trainsAsOneProcessDoesWithoutSharedMemory(String wire, int world) {
        Outcome alone = alone(Runs::cnn);
        List<Outcome> all = withoutSharedMemory(wire, world);
        assertClose(all.getFirst(), alone, ROUNDING);
        for (Outcome each : all) {
            assertClose(each, all.getFirst(), 0);
        }
        assertClose(withoutSharedMemory(wire, world).getLast(), all.getFirst(), 0);
    }

    private static List<Outcome> withoutSharedMemory(String wire, int world) {
        TransportConfig network = Cluster.transport(wire).sharedMemory(false);
        return new Cluster(network, world, Coordinator.OnLoss.END).run(group ->
                Runs.train(Runs::cnn, RingAllReduce.over(group).bucketBytes(512).build(), b -> { }));
    }

    @Test
    void accumulates() {
        Outcome alone = alone(Runs::mlp);
        List<Outcome> both = Cluster.local(2).run(group -> Runs.train(Runs::mlp, Runs.BATCH / 4,
                RingAllReduce.over(group).build(), b -> b.accumulate(4)));
        assertClose(both.get(0), alone, ROUNDING);
        assertClose(both.get(1), both.get(0), 0);
    }

    @Test
    void sendsHalfTheBytes() {
        // Each rank sends one half of each gradient to be summed and the other half as sums; the rest is little.
        double elements = 2.0 * Runs.STEPS * WIDE;
        assertThat(bytesSent(r -> r) / elements).isBetween(4.0, 4.3);
        assertThat(bytesSent(RingAllReduce.Builder::halfPrecision) / elements).isBetween(2.0, 2.3);
    }

    /** Counts the bytes sent between two ranks without shared memory. */
    private static long bytesSent(UnaryOperator<RingAllReduce.Builder> options) {
        LongAdder bytes = new LongAdder();
        TransportConfig local = TransportConfig.of("local", Secret.random()).sharedMemory(false);
        new Cluster(local, 2, Coordinator.OnLoss.END).around(wire -> new CountingWire(wire, bytes)).run(group ->
                Runs.train(g -> Sequential.of(new Flatten(), Linear.of(36, 1000, g), Linear.of(1000, 4, g)),
                        options.apply(RingAllReduce.over(group)).build(), b -> { }));
        return bytes.sum();
    }

    @Test
    void learnsWithHalfTheBytes() {
        Outcome alone = alone(Runs::mlp);
        List<Outcome> both = ring(2, Runs::mlp, RingAllReduce.Builder::halfPrecision, b -> { });
        assertClose(both.get(1), both.get(0), 0);
        // Gradients with eight bits of precision, 110 steps of 0.05/(1 - 0.9).
        assertClose(both.get(0), alone, 0.05f);
        assertThat(both.get(0).history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
    }

    @Test
    void agreesOnRunningStatistics() {
        List<Outcome> all = ring(3, Runs::normed, r -> r, b -> { });
        assertClose(all.get(1), all.get(0), 0);
        assertClose(all.get(2), all.get(0), 0);
        Outcome alone = alone(Runs::normed);
        // The mean of the shares' means is that of the batch; between ranks it drifts a little with the weights.
        assertThat(all.get(0).tensors().get("1.running_mean")).containsExactly(alone.tensors().get("1.running_mean"),
                within(0.1f));
        assertThat(all.get(0).history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
    }

    /** Has two layers and uses one; the other is used on rank 1 only, if {@code sometimes}. */
    private record PartlyUsed(Linear used, Linear idle, boolean sometimes) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            Tensor flat = x.reshape(x.size(0), 36);
            return sometimes ? used.forward(flat).add(idle.forward(flat)) : used.forward(flat);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("used", used);
            visitor.layer("idle", idle);
        }
    }

    @Test
    void doesNotChangeUnusedParameters() {
        Function<Generator, Layer> network = g -> new PartlyUsed(Linear.of(36, 4, g), Linear.of(36, 4, g), false);
        Outcome alone = alone(network);
        List<Outcome> both = ring(2, network, r -> r.bucketBytes(512), b -> { });
        assertClose(both.get(0), alone, ROUNDING);
        assertClose(both.get(1), both.get(0), 0);
    }

    @Test
    void countsMissingGradientsAsZeros() {
        List<Outcome> both = Cluster.local(2).run(group -> Runs.train(g -> new PartlyUsed(Linear.of(36, 4, g),
                Linear.of(36, 4, g), group.rank() == 1), RingAllReduce.over(group).bucketBytes(512).build(), b -> { }));
        assertClose(both.get(1), both.get(0), 0);
        Outcome unused = ring(2, g -> new PartlyUsed(Linear.of(36, 4, g), Linear.of(36, 4, g), false), r -> r, b -> { })
                .getFirst();
        assertThat(both.get(0).tensors().get("idle.weight")).isNotEqualTo(unused.tensors().get("idle.weight"));
    }

    // ---- stopping, checkpoints ----

    private static TrainingListener stopAt(long step) {
        return new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == step) {
                    progress.stop();
                }
            }
        };
    }

    @Test
    void stopsTogether() {
        List<Outcome> all = Cluster.local(3).run(group -> Runs.train(Runs::mlp, RingAllReduce.over(group).build(),
                b -> b.listeners(stopAt(group.rank() == 1 ? 25 : 1000))));
        assertThat(all).allSatisfy(each -> {
            assertThat(each.history().epochs()).hasSize(2);
            assertClose(each, all.getFirst(), 0);
        });
    }

    @Test
    void resumesFromACheckpointWithAnotherNumberOfRanks(@TempDir Path directory) {
        Outcome alone = alone(Runs::cnn);
        ring(3, Runs::cnn, r -> r, b -> b.checkpoints(directory, 10).listeners(stopAt(37)));
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(38);
        List<Outcome> both = ring(2, Runs::cnn, r -> r, b -> b.checkpoints(directory).resume());
        assertClose(both.get(0), alone, ROUNDING);
        assertClose(both.get(1), both.get(0), 0);
        EpochReport fourth = both.get(1).history().epochs().getFirst();
        assertThat(fourth.epoch()).isEqualTo(4);
        assertThat(fourth.training().examples()).isEqualTo(Runs.EXAMPLES);
        assertThat(fourth.training().loss()).isCloseTo(alone.history().epochs().get(3).training().loss(), within(1e-4));
    }

    // ---- configuration ----

    @Test
    void isIndependentOfItsBuilder() {
        Cluster.local(2).run(group -> {
            RingAllReduce.Builder builder = RingAllReduce.over(group);
            RingAllReduce ring = builder.build();
            builder.ownData().elastic();
            Runs.train(Runs::mlp, ring, b -> { });
            assertThat(ring.share()).isEqualTo(Share.part(group.rank(), 2));
            return null;
        });
    }

    /** Ranks begin the second run, too, with different weights and with the state of rank 0. */
    @Test
    void trainsAgainAfterARunThatWasStopped() {
        List<Outcome> second = Cluster.local(2).run(group -> {
            RingAllReduce ring = RingAllReduce.over(group).build();
            Runs.train(Runs::mlp, ring, b -> b.listeners(new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    if (progress.step() == 3) {
                        progress.stop();
                    }
                }
            }));
            return Runs.train(Runs::mlp, ring, b -> b.epochs(1));
        });
        assertThat(second.getFirst().history().last().step()).isEqualTo(Runs.STEPS / Runs.EPOCHS);
        assertClose(second.get(1), second.get(0), 0);
    }

    // ---- errors ----

    @Test
    void refusesRanksWithDifferentModels() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> Runs.train(group.rank() == 0 ? Runs::mlp : Runs::cnn,
                RingAllReduce.over(group).build(), b -> { }))).isInstanceOf(SettingsMismatchException.class)
                .hasMessageContaining("model.0 is Flatten on rank 0, Conv2d on rank 1");
    }

    @Test
    void leavesDuringAStep() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> {
            try (Scope scope = Scope.open();
                    Layer net = Runs.mlp(Generator.seeded(1));
                    Optimizer sgd = Sgd.over(net).build();
                    RingAllReduce ring = RingAllReduce.over(group).bucketBytes(512).build()) {
                ring.start(TrainingState.of(net, sgd));
                Tensor[] gradients = new Tensor[4];
                for (int i = 3; i > group.rank(); i--) {
                    gradients[i] = sgd.parameters().get(i).value().copy();
                    ring.gradient(i, gradients[i]);
                }
                return group.rank() == 0 ? null : ring.beforeStep(gradients);
            }
        })).isInstanceOf(PeerLostException.class).hasMessageContaining("rank 0");
    }

    // ---- unequal ranks ----

    /** Takes a time proportional to the number of rows. */
    private record Slow(Layer inner, long nsPerRow) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            long until = System.nanoTime() + nsPerRow * x.size(0);
            while (System.nanoTime() < until) {
                LockSupport.parkNanos(until - System.nanoTime());
            }
            return inner.forward(x);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("inner", inner);
        }
    }

    @Test
    void givesASlowRankSmallerShares() {
        List<int[]> rows = Cluster.local(2).run(group -> {
            RingAllReduce ring = RingAllReduce.over(group).proportional().build();
            Outcome[] outcome = new Outcome[1];
            List<Integer> shares = new ArrayList<>();
            outcome[0] = Runs.train(g -> new Slow(Runs.mlp(g), group.rank() == 0 ? 200_000 : 600_000), ring,
                    b -> b.epochs(8).listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            shares.add(ring.share().rows(0, Runs.BATCH));
                        }
                    }));
            return shares.subList(shares.size() / 2, shares.size()).stream().mapToInt(i -> i).sorted().toArray();
        });
        // A quarter of the rows where only the speed differs.
        int slow = rows.get(1)[rows.get(1).length / 2];
        assertThat(slow).isBetween(4, 13);
        assertThat(rows.get(0)[(rows.get(0).length - 1) / 2] + slow).isEqualTo(Runs.BATCH);
    }

    @Test
    void trainsAsOneProcessDoesWithUnequalShares() {
        Outcome alone = alone(g -> new Slow(Runs.mlp(g), 0));
        List<Outcome> both = Cluster.local(2).run(group -> Runs.train(g -> new Slow(Runs.mlp(g),
                group.rank() == 0 ? 20_000 : 80_000), RingAllReduce.over(group).proportional().build(), b -> { }));
        assertClose(both.get(0), alone, ROUNDING);
        assertClose(both.get(1), both.get(0), 0);
    }
}
