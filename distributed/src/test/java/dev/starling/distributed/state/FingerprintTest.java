package dev.starling.distributed.state;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.WeightsDivergedException;
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
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Weights that differ between ranks are found by their checksums. */
@Timeout(60)
class FingerprintTest {
    private static final int STEPS = 16;

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void namesTheRankTheStepAndTheParameterThatDiffers(int rank) {
        List<RunEndedException> failures = train(false, rank, 4);
        assertThat(failures).hasSize(3).allSatisfy(each -> assertThat(each).isInstanceOfSatisfying(
                WeightsDivergedException.class, e -> {
                    assertThat(e.rank()).isEqualTo(rank);
                    assertThat(e.step()).isEqualTo(8);
                    assertThat(e.parameter()).isEqualTo("2.bias");
                    assertThat(e).hasMessageStartingWith("after step 8 the weights of rank " + rank
                            + " of 3 differ from those of the others, first in 2.bias");
                }));
    }

    @Test
    void findsNothingWhereWeightsAreEqual() {
        assertThat(train(false, -1, 4)).containsOnlyNulls();
        assertThat(train(true, -1, 4)).containsOnlyNulls();
    }

    @Test
    void isNotTakenIfItIsOff() {
        assertThat(train(false, 1, 0)).containsOnlyNulls();
    }

    @Test
    void dependsOnEachBitAndOnTheOrder() {
        byte[] bytes = new byte[77];
        Set<Long> seen = new HashSet<>(Set.of(Fingerprint.of(MemorySegment.ofArray(bytes))));
        for (int bit = 0; bit < 8 * bytes.length; bit++) {
            bytes[bit / 8] ^= (byte) (1 << bit % 8);
            assertThat(seen.add(Fingerprint.of(MemorySegment.ofArray(bytes)))).as("bit %d", bit).isTrue();
            bytes[bit / 8] ^= (byte) (1 << bit % 8);
        }
        assertThat(seen.add(Fingerprint.of(MemorySegment.ofArray(new byte[76])))).as("length").isTrue();
    }

    /** Trains three workers; one of them changes a weight by itself after step 5. Returns their failures. */
    private static List<RunEndedException> train(boolean ps, int rank, int interval) {
        List<RunEndedException> failures = Cluster.local(ps ? 4 : 3).servers(ps ? 1 : 0).run(group -> {
            try (Scope scope = Scope.open("rank")) {
                if (group.rank() == 3) {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                } else {
                    train(group, ps, group.rank() == rank, interval);
                }
                return null;
            } catch (RunEndedException e) {
                return e;
            }
        });
        return failures.subList(0, 3);
    }

    private static void train(Membership group, boolean ps, boolean differs, int interval) {
        Generator random = Generator.seeded(3);
        Layer model = Sequential.of(Linear.of(3, 5, random), new Relu(), Linear.of(5, 2, random));
        TrainingListener change = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (differs && progress.step() == 5) {
                    try (Tensor other = Tensor.of(new float[] {1, 2})) {
                        model.state().get("2.bias").set(other);
                    }
                }
            }
        };
        try (DataLoader data = DataLoader.of(TensorDataset.of(random.normal(STEPS * 4, 3), random.normal(STEPS * 4, 2)))
                .batchSize(4).build();
                Optimizer sgd = Sgd.over(model).rate(0.1).build();
                DistributionStrategy strategy = ps ? ParameterServer.worker(group, group.rank()).workers(3)
                        .consistency(new Consistency.Synchronous()).checkWeightsEvery(interval).build()
                        : RingAllReduce.over(group).checkWeightsEvery(interval).build()) {
            Trainer.of(model, Loss.meanSquared(), sgd).data(data).strategy(strategy).listeners(change).build().run();
        }
    }
}
