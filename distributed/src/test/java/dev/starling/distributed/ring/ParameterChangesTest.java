package dev.starling.distributed.ring;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Parameters that are frozen during training, and gradients that are not finite on one rank. */
@Timeout(60)
class ParameterChangesTest {
    private static final int WORLD = 3;
    private static final int FROZEN = 30;
    private static final int THAWED = 60;

    /** Trains a network whose first weights are frozen from one step to another. */
    private static Outcome train(DistributionStrategy strategy, boolean freezes, boolean captured) {
        Parameter[] first = new Parameter[1];
        return Runs.train(g -> {
            Layer net = Runs.mlp(g);
            first[0] = net.state().get("1.weight");
            return net;
        }, strategy, builder -> {
            builder.listeners(new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    if (freezes && progress.step() == FROZEN) {
                        first[0].freeze();
                    } else if (freezes && progress.step() == THAWED) {
                        first[0].unfreeze();
                    }
                }
            });
            if (captured) {
                builder.captured();
            }
        });
    }

    @Test
    void trainsAsOneProcessDoesWhereAllRanksFreeze() {
        Outcome alone = train(new SingleProcess(), true, false);
        List<Outcome> all = Cluster.local(WORLD).run(group ->
                train(RingAllReduce.over(group).bucketBytes(512).build(), true, group.rank() > 0));
        Runs.assertClose(all.getFirst(), alone, 5e-5f);
        for (Outcome each : all) {
            Runs.assertClose(each, all.getFirst(), 0);
        }
        Outcome other = train(new SingleProcess(), false, false);
        assertThat(other.tensors().get("1.weight")).isNotEqualTo(alone.tensors().get("1.weight"));
    }

    @Test
    void refusesAParameterThatIsFrozenOnOneRankOnly() {
        List<Throwable> all = failures(strategy -> train(strategy, strategy.rank() == 1, false));
        for (Throwable each : all) {
            assertThat(each).isInstanceOf(DistributedException.class)
                    .hasMessageContaining("1.weight is frozen on 1 of 3 ranks");
        }
    }

    @Test
    void refusesAStepOnAllRanksWhereTheGradientOfOneIsNotFinite() {
        List<float[]> weights = new ArrayList<>();
        List<Throwable> all = failures(strategy -> {
            int[] passes = new int[1];
            // The result is that of the identity; its gradient is 0/0.
            Layer poison = x -> strategy.rank() == 1 && ++passes[0] > 5 ? x.add(x.mul(0).abs().sqrt()) : x;
            Parameter[] last = new Parameter[1];
            try {
                Runs.train(g -> {
                    Linear second = Linear.of(16, 4, g);
                    last[0] = second.weight();
                    return Sequential.of(new Flatten(), Linear.of(36, 16, g), poison, new Relu(), second);
                }, strategy, builder -> builder.listeners(new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        synchronized (weights) {
                            weights.add(last[0].value().toFloats());
                        }
                    }
                }));
            } finally {
                assertThat(passes[0]).isLessThan(7);
            }
        });
        for (Throwable each : all) {
            assertThat(each).isInstanceOf(RunEndedException.class).hasCauseInstanceOf(TensorException.class)
                    .hasMessageContaining("1.").hasMessageContaining("infinite or NaN");
        }
        assertThat(weights).hasSize(5 * WORLD);
    }

    /** Returns the results of all ranks. */
    private static List<Throwable> failures(Consumer<DistributionStrategy> training) {
        return Cluster.local(WORLD).run(group -> {
            try {
                training.accept(RingAllReduce.over(group).build());
                return new AssertionError("rank " + group.rank() + " did not fail");
            } catch (RuntimeException e) {
                // Other ranks may still need this one to learn the same.
                Thread.sleep(300);
                return (Throwable) e;
            }
        });
    }
}
