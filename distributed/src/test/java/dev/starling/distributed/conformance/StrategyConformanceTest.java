package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;
import java.time.Duration;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Strategies with a defect each, which the checks must find. */
@Timeout(120)
class StrategyConformanceTest {
    /** A ring with a defect. */
    private static class Defective implements DistributionStrategy, Collective {
        final RingAllReduce ring;

        Defective(Group group) {
            ring = RingAllReduce.over(group).build();
        }

        @Override
        public int rank() {
            return ring.rank();
        }

        @Override
        public int world() {
            return ring.world();
        }

        @Override
        public Share share() {
            return ring.share();
        }

        @Override
        public void start(TrainingState state) {
            ring.start(state);
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            for (int i = 0; i < gradients.length; i++) {
                if (gradients[i] != null) {
                    ring.gradient(i, gradients[i]);
                }
            }
            return ring.beforeStep(gradients);
        }

        @Override
        public void afterStep() {
            ring.afterStep();
        }

        @Override
        public boolean stops(boolean requested) {
            return ring.stops(requested);
        }

        @Override
        public void sum(double[] values) {
            ring.sum(values);
        }

        @Override
        public void close() {
            ring.close();
        }
    }

    private static StrategyConformance.Report run(StrategyConformance conformance, int seeds) {
        return new Sweep(LongStream.range(0, seeds).toArray()).run(conformance);
    }

    private static void assertFinds(Function<Group, DistributionStrategy> strategy, String finding) {
        assertThatThrownBy(() -> run(StrategyConformance.of(strategy), 8))
                .isInstanceOf(AssertionError.class).hasMessageContaining(finding);
    }

    @Test
    void acceptsAStrategyWithoutDefect() {
        StrategyConformance.Report report = run(StrategyConformance.of(Defective::new), 8);
        assertThat(report.schedules()).isEqualTo(8);
        assertThat(report.finished()).isPositive();
        assertThat(report.failed()).isPositive();
        assertThat(report.returned()).isZero();
    }

    @Test
    void findsAMeanInPlaceOfTheSum() {
        assertFinds(group -> new Defective(group) {
            @Override
            public Step beforeStep(Tensor[] gradients) {
                Step step = super.beforeStep(gradients);
                for (int i = 0; i < gradients.length; i++) {
                    gradients[i] = gradients[i].div(world());
                }
                return step;
            }
        }, "one process");
    }

    @Test
    void findsRanksThatDiffer() {
        assertThatThrownBy(() -> run(StrategyConformance.of(group -> new Defective(group) {
            @Override
            public Step beforeStep(Tensor[] gradients) {
                Step step = super.beforeStep(gradients);
                gradients[0] = gradients[0].mul(1 + rank() * 1e-3);
                return step;
            }
        }).inexact(), 8)).isInstanceOf(AssertionError.class)
                .hasMessageContaining("another rank").hasMessageContaining("FaultPlan.random(");
    }

    @Test
    void findsAHang() {
        assertFinds(group -> new Defective(group) {
            @Override
            public void afterStep() {
                super.afterStep();
                if (rank() == 0) {
                    Membership.of(group).await(() -> false, Duration.ofDays(1));
                }
            }
        }, "did not end");
    }

    @Test
    void findsAnErrorWithoutACause() {
        assertFinds(group -> new Defective(group) {
            @Override
            public Step beforeStep(Tensor[] gradients) {
                try {
                    return super.beforeStep(gradients);
                } catch (DistributedException e) {
                    throw new DistributedException("it did not work");
                }
            }
        }, "must name a process and a cause");
    }

    @Test
    void findsAStrategyThatIsNotElastic() {
        assertThatThrownBy(() -> run(StrategyConformance.of(Defective::new).elastic(), 8))
                .isInstanceOf(AssertionError.class)
                .hasMessageMatching("(?s)of seeds .*(must finish|epoch 2 has . members instead of ).*");
    }

    @Test
    void findsSettingsThatAreNotCompared() {
        assertThatThrownBy(() -> run(StrategyConformance.of(Defective::new)
                .refuses(Defective::new), 0)).isInstanceOf(AssertionError.class)
                .hasMessageContaining("rank0 trains together with a rank of other settings");
    }
}
