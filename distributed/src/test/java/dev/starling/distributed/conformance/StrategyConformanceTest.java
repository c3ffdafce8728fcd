package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
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
        assertFinds(StrategyConformance.of(strategy), finding);
    }

    private static void assertFinds(StrategyConformance conformance, String finding) {
        assertThatThrownBy(() -> run(conformance, 8))
                .isInstanceOf(AssertionError.class).hasMessageContaining(finding);
    }

    /** Returns a strategy that throws an exception in its third step, on all ranks. */
    private static StrategyConformance ending(Function<Integer, DistributedException> byRank) {
        return StrategyConformance.of(group -> new Defective(group) {
            private int steps;

            @Override
            public Step beforeStep(Tensor[] gradients) {
                if (++steps == 3) {
                    throw byRank.apply(rank());
                }
                return super.beforeStep(gradients);
            }
        }).inexact();
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
    void findsOtherStepsThanThoseOfOneProcess() {
        assertFinds(group -> new Defective(group) {
            private int steps;

            @Override
            public boolean stops(boolean requested) {
                return super.stops(requested) || ++steps == 5;
            }
        }, "took the steps");
    }

    @Test
    void findsWeightsThatAreNotFinite() {
        assertFinds(StrategyConformance.of(group -> new Defective(group) {
            private TrainingState state;

            @Override
            public void start(TrainingState newState) {
                super.start(newState);
                state = newState;
            }

            @Override
            public void afterStep() {
                super.afterStep();
                Parameter first = state.optimizer().parameters().getFirst();
                first.set(Tensor.full(DType.F32, Double.NaN, first.shape().dims()));
            }
        }).inexact(), "has the weight NaN after step 1");
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
    void findsAnErrorOfAnotherType() {
        assertFinds(group -> new Defective(group) {
            @Override
            public Step beforeStep(Tensor[] gradients) {
                try {
                    return super.beforeStep(gradients);
                } catch (DistributedException e) {
                    throw TensorException.argument("strategy", "the tensor is closed", "start again");
                }
            }
        }, "must end with a DistributedException or a TransportException");
    }

    @Test
    void findsALossThatNoFaultExplains() {
        assertFinds(ending(rank -> new PeerLostException(rank == 1 ? 0 : 1, Duration.ZERO, "it has left")),
                "as lost, but no fault had affected it by");
    }

    @Test
    void findsALossThatIsReportedLate() {
        assertFinds(group -> new Defective(group) {
            @Override
            public Step beforeStep(Tensor[] gradients) {
                try {
                    return super.beforeStep(gradients);
                } catch (PeerLostException e) {
                    Membership.of(group).await(() -> false, Duration.ofSeconds(2));
                    throw e;
                }
            }
        }, "after the last fault, expected less than");
    }

    @Test
    void findsARankThatEndsWithoutALoss() {
        assertFinds(ending(_ -> new DistributedException("rank 1 has left")), "must finish without harmful faults");
    }

    @Test
    void takesAnySeeds() {
        StrategyConformance.Report report = new Sweep(new long[] {-1, -2, -3, Long.MIN_VALUE})
                .run(StrategyConformance.of(Defective::new).inexact());
        assertThat(report.schedules()).isEqualTo(4);
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
