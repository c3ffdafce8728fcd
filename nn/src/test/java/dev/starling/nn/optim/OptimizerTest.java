package dev.starling.nn.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.assertj.core.api.Assertions.withinPercentage;

import dev.starling.nn.FarProvider;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.assertj.core.api.ThrowableAssert;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compares optimisers with the formulas of their papers, one number at a time in double precision. */
class OptimizerTest {
    private static final int STEPS = 20;
    private static final int SIZE = 37;

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** A weight, and a bias with one element fewer. */
    private static final class Pair implements Layer {
        private final Parameter weight = Parameter.of(Generator.seeded(1).normal(SIZE));
        private final Parameter bias = Parameter.of(Generator.seeded(2).normal(SIZE - 1));

        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("weight", weight);
            visitor.parameter("bias", bias);
        }
    }

    private interface Rule {
        /** Returns the new value of a number. The state belongs to this number. */
        double next(double p, double g, double[] state, int step);
    }

    private static void assertFollows(Pair pair, Optimizer optimizer, Rule weight, Rule bias) {
        double[] w = pair.weight.value().toDoubles();
        double[] b = pair.bias.value().toDoubles();
        double[][] ws = new double[SIZE][3];
        double[][] bs = new double[SIZE][3];
        for (int t = 1; t <= STEPS; t++) {
            try (Scope step = Scope.open()) {
                Tensor gw = Generator.seeded(100 + t).normal(SIZE);
                Tensor gb = Generator.seeded(200 + t).normal(SIZE - 1);
                optimizer.step(gw, gb);
                double[] gws = gw.toDoubles();
                double[] gbs = gb.toDoubles();
                for (int i = 0; i < SIZE; i++) {
                    w[i] = weight.next(w[i], gws[i], ws[i], t);
                    if (i < SIZE - 1) {
                        b[i] = bias.next(b[i], gbs[i], bs[i], t);
                    }
                }
            }
        }
        assertThat(pair.weight.value().toDoubles()).usingComparatorWithPrecision(2e-5).containsExactly(w);
        assertThat(pair.bias.value().toDoubles()).usingComparatorWithPrecision(2e-5).containsExactly(b);
        assertThat(optimizer.steps()).isEqualTo(STEPS);
        optimizer.close();
        pair.close();
    }

    @Test
    void followsTheFormulaOfSgd() {
        Pair pair = new Pair();
        assertFollows(pair, Sgd.over(pair).rate(0.1).build(), (p, g, s, t) -> p - 0.1 * g, (p, g, s, t) -> p - 0.1 * g);
    }

    @Test
    void appliesMomentumAndDecaysOnlyWeights() {
        Pair pair = new Pair();
        Rule plain = (p, g, s, t) -> p - 0.1 * (s[0] = 0.9 * s[0] + g);
        assertFollows(pair, Sgd.over(pair).rate(0.1).momentum(0.9).weightDecay(0.01)
                .withoutDecay(path -> path.endsWith("bias")).build(),
                (p, g, s, t) -> plain.next(p, g + 0.01 * p, s, t), plain);
    }

    @Test
    void followsTheFormulaOfNesterovMomentum() {
        Pair pair = new Pair();
        Rule rule = (p, g, s, t) -> {
            s[0] = 0.8 * s[0] + g;
            return p - 0.05 * (g + 0.8 * s[0]);
        };
        assertFollows(pair, Sgd.over(pair).rate(0.05).momentum(0.8).nesterov().build(), rule, rule);
    }

    private static Rule adam(double rate, double beta1, double beta2, double epsilon, double l2, double shrink) {
        return (p, g, s, t) -> {
            double h = g + l2 * p;
            s[0] = beta1 * s[0] + (1 - beta1) * h;
            s[1] = beta2 * s[1] + (1 - beta2) * h * h;
            double m = s[0] / (1 - Math.pow(beta1, t));
            double v = s[1] / (1 - Math.pow(beta2, t));
            return p - rate * shrink * p - rate * m / (Math.sqrt(v) + epsilon);
        };
    }

    @Test
    void followsTheFormulaOfAdam() {
        Pair pair = new Pair();
        Rule rule = adam(0.01, 0.8, 0.95, 1e-6, 0.1, 0);
        assertFollows(pair, Adam.over(pair).rate(0.01).betas(0.8, 0.95).epsilon(1e-6).weightDecay(0.1).build(), rule,
                rule);
    }

    @Test
    void followsTheFormulaOfAdamW() {
        Pair pair = new Pair();
        assertFollows(pair, AdamW.over(pair).rate(0.02).weightDecay(0.1).withoutDecay("bias"::equals).build(),
                adam(0.02, 0.9, 0.999, 1e-8, 0, 0.1), adam(0.02, 0.9, 0.999, 1e-8, 0, 0));
    }

    private static Rule adagrad(double rate, double epsilon, double decay, double initial) {
        return (p, g, s, t) -> {
            double h = g + decay * p;
            s[0] = (t == 1 ? initial : s[0]) + h * h;
            return p - rate * h / (Math.sqrt(s[0]) + epsilon);
        };
    }

    @Test
    void followsTheFormulaOfAdagrad() {
        Pair pair = new Pair();
        assertFollows(pair, Adagrad.over(pair).rate(0.1).epsilon(1e-3).initialSum(0.5).weightDecay(0.1)
                .withoutDecay("bias"::equals).build(), adagrad(0.1, 1e-3, 0.1, 0.5), adagrad(0.1, 1e-3, 0, 0.5));
        Pair other = new Pair();
        assertFollows(other, Adagrad.over(other).build(), adagrad(0.01, 1e-10, 0, 0), adagrad(0.01, 1e-10, 0, 0));
    }

    private static Rule rmsprop(double rate, double decay, double epsilon, double l2, double momentum,
            boolean centred) {
        return (p, g, s, t) -> {
            double h = g + l2 * p;
            s[0] = decay * s[0] + (1 - decay) * h * h;
            s[1] = decay * s[1] + (1 - decay) * h;
            s[2] = momentum * s[2] + h / (Math.sqrt(s[0] - (centred ? s[1] * s[1] : 0)) + epsilon);
            return p - rate * s[2];
        };
    }

    @Test
    void followsTheFormulaOfRmsprop() {
        for (boolean centred : new boolean[] {false, true}) {
            for (double momentum : new double[] {0, 0.8}) {
                Pair pair = new Pair();
                Rmsprop.Builder builder = Rmsprop.over(pair).rate(0.02).decay(0.9).epsilon(0.1).momentum(momentum)
                        .weightDecay(0.1).withoutDecay("bias"::equals);
                assertFollows(pair, (centred ? builder.centred() : builder).build(),
                        rmsprop(0.02, 0.9, 0.1, 0.1, momentum, centred),
                        rmsprop(0.02, 0.9, 0.1, 0, momentum, centred));
            }
        }
    }

    /** The squares of the gradient and of its mean are infinite in f32. */
    @Test
    void centredRmspropDoesNotMoveAWeightWhoseSquareIsInfinite() {
        Pair pair = new Pair();
        float[] before = pair.weight.value().toFloats();
        try (Optimizer rmsprop = Rmsprop.over(pair).centred().build()) {
            for (int step = 0; step < 3; step++) {
                rmsprop.step(Tensor.full(DType.F32, 1e23, SIZE), (Tensor) null);
                assertThat(pair.weight.value().toFloats()).isEqualTo(before);
            }
        }
        pair.close();
    }

    @Test
    void followsTheFormulaOfLion() {
        Pair pair = new Pair();
        Rule rule = (p, g, s, t) -> {
            double direction = Math.signum(0.8 * s[0] + 0.2 * g);
            s[0] = 0.95 * s[0] + 0.05 * g;
            return p * (1 - 0.01 * 0.1) - 0.01 * direction;
        };
        assertFollows(pair, Lion.over(pair).rate(0.01).betas(0.8, 0.95).weightDecay(0.1).build(), rule, rule);
    }

    @Test
    void clampsEachElementWhenClippingByValue() {
        Pair pair = new Pair();
        double[] before = pair.weight.value().toDoubles();
        try (Optimizer sgd = ClipByValue.of(Sgd.over(pair).rate(1).build(), 0.5)) {
            float[] gradient = new float[SIZE];
            gradient[0] = 3;
            gradient[1] = -0.25f;
            gradient[2] = -7;
            sgd.step(Tensor.of(gradient), (Tensor) null);
            double[] after = pair.weight.value().toDoubles();
            assertThat(new double[] {before[0] - after[0], before[1] - after[1], before[2] - after[2],
                before[3] - after[3]}).usingComparatorWithPrecision(1e-6).containsExactly(0.5, -0.25, -0.5, 0);
            gradient[5] = Float.POSITIVE_INFINITY;
            assertThatThrownBy(() -> sgd.step(Tensor.of(gradient), (Tensor) null))
                    .isInstanceOf(TensorException.class).hasMessageContaining("infinite or NaN");
            assertThat(pair.weight.value().toDoubles()).isEqualTo(after);
            assertThat(sgd.steps()).isEqualTo(1);
        }
        pair.close();
    }

    /** The last setting that applies to a path counts. */
    @Test
    void givesGroupsOfParametersTheirOwnRateAndDecay() {
        Pair pair = new Pair();
        Optimizer sgd = Sgd.over(pair).rate(0.1).weightDecay(0.2).rate(path -> true, 5)
                .rate("bias"::equals, Schedule.decay(1, 10, 0.5)).rate("weight"::equals, 0.01)
                .weightDecay("bias"::equals, 0.3).build();
        assertThat(sgd.rate()).isEqualTo(0.1);
        assertThat(sgd.rate(0)).isEqualTo(0.01);
        assertThat(sgd.rate(1)).isEqualTo(1);
        assertFollows(pair, sgd, (p, g, s, t) -> p - 0.01 * (g + 0.2 * p),
                (p, g, s, t) -> p - (t <= 10 ? 1 : 0.5) * (g + 0.3 * p));
    }

    @Test
    void freezesParametersByPath() {
        Pair pair = new Pair();
        float[] bias = pair.bias.value().toFloats();
        float[] weight = pair.weight.value().toFloats();
        try (Optimizer sgd = Sgd.over(pair.freeze("bias"::equals)).build()) {
            sgd.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            assertThat(pair.bias.value().toFloats()).isEqualTo(bias);
            assertThat(pair.weight.value().toFloats()).isNotEqualTo(weight);
            pair.unfreeze(path -> true);
            sgd.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            assertThat(pair.bias.value().toFloats()).isNotEqualTo(bias);
        }
        pair.close();
    }

    @Test
    void averagesWeightsExponentiallyAndStochastically() {
        Pair pair = new Pair();
        Pair other = new Pair();
        AveragedWeights moving = AveragedWeights.exponential(Sgd.over(pair).rate(0.1).build(), 0.75);
        AveragedWeights mean = AveragedWeights.stochastic(Sgd.over(other).rate(0.1).build(), 3, 2);
        double expected = 0;
        double sum = 0;
        for (int t = 1; t <= 8; t++) {
            Tensor[] gradients = {Tensor.full(DType.F32, t, SIZE), Tensor.ones(SIZE - 1)};
            moving.step(gradients);
            mean.step(gradients);
            double p = pair.weight.value().toDoubles()[4];
            expected = t == 1 ? p : 0.75 * expected + 0.25 * p;
            // Steps 3, 5 and 7 count.
            sum += t % 2 == 1 && t >= 3 ? p : 0;
        }
        assertThat(moving.average(0).toDoubles()[4]).isCloseTo(expected, within(1e-5));
        assertThat(mean.average(0).toDoubles()[4]).isCloseTo(sum / 3, within(1e-5));
        assertThat(moving.state()).containsKeys("weight.average", "bias.average");
        float[] last = pair.weight.value().toFloats();
        float[] average = moving.average(0).toFloats();
        assertThat(moving.evaluate(() -> pair.weight.value().toFloats())).isEqualTo(average).isNotEqualTo(last);
        assertThat(pair.weight.value().toFloats()).isEqualTo(last);
        assertThat(moving.average(0).toFloats()).isEqualTo(average);
        moving.step(Tensor.scalar(Float.NaN), new Tensor[] {Tensor.ones(SIZE), Tensor.ones(SIZE - 1)});
        assertThat(pair.weight.value().toFloats()).isEqualTo(last);
        assertThat(moving.average(0).toFloats()).as("a step that the guard forbids").isEqualTo(average);
        moving.apply();
        assertThat(pair.weight.value().toFloats()).isEqualTo(average);
        moving.close();
        mean.close();
        pair.close();
        other.close();
    }

    /** Under one name, a checkpoint would have one of them only. */
    @Test
    void namesTwoAveragesOfOneOptimiserDifferently() {
        Pair pair = new Pair();
        AveragedWeights fast = AveragedWeights.exponential(Sgd.over(pair).rate(0.1).build(), 0.5);
        try (pair; AveragedWeights slow = AveragedWeights.exponential(fast, 0.9)) {
            assertThat(slow.state()).containsKeys("weight.average", "bias.average").hasSize(4);
            assertThat(slow.state().values().stream().map(Parameter::master).toList()).contains(fast.average(0),
                    fast.average(1), slow.average(0), slow.average(1));
        }
    }

    /** A run that ends before the first step that counts must not lose its weights. */
    @Test
    void leavesWeightsAsTheyAreWhileThereIsNoAverage() {
        Pair pair = new Pair();
        try (pair; AveragedWeights averaged = AveragedWeights.stochastic(Sgd.over(pair).rate(0.1).build(), 2, 1)) {
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            float[] weight = pair.weight.value().toFloats();
            assertThat(averaged.evaluate(() -> pair.weight.value().toFloats())).isEqualTo(weight);
            averaged.apply();
            assertThat(pair.weight.value().toFloats()).isEqualTo(weight);
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            averaged.apply();
            assertThat(pair.weight.value().toFloats()[3]).isCloseTo(weight[3] - 0.15f, within(1e-5f));
        }
    }

    /** In bf16, the sum of 0.99 times 1 and 0.01 times 1.25 is 1. */
    @Test
    void averagesWeightsOf16BitsInF32() {
        Pair pair = new Pair();
        pair.to(DType.BF16);
        try (pair; AveragedWeights averaged = AveragedWeights.exponential(Sgd.over(pair).build(), 0.99)) {
            Tensor none = Tensor.full(DType.BF16, 0, SIZE);
            pair.weight.set(Tensor.ones(SIZE));
            averaged.step(none, (Tensor) null);
            pair.weight.set(Tensor.full(DType.F32, 1.25, SIZE));
            for (int i = 0; i < 100; i++) {
                averaged.step(none, (Tensor) null);
            }
            double expected = 1.25 - 0.25 * Math.pow(0.99, 100);
            double[] average = averaged.average(0).toDoubles();
            assertThat(average[3]).isCloseTo(expected, within(1e-5));
            double evaluated = averaged.evaluate(() -> pair.weight.value().toDoubles()[3]);
            assertThat(evaluated).isCloseTo(expected, within(4e-3));
            assertThat(averaged.average(0).toDoubles()).as("not rounded by the evaluation").isEqualTo(average);
            assertThat(pair.weight.value().toDoubles()).containsOnly(1.25);
        }
    }

    /** The host does not see whether gradients, or their norm, are finite. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void leavesAveragesAsTheyAreIfTheDeviceSkipsTheStep(boolean clips) {
        Pair pair = new Pair();
        pair.to(FarProvider.device());
        Optimizer sgd = Sgd.over(pair).rate(0.1).build();
        try (pair; AveragedWeights averaged = AveragedWeights.exponential(clips ? ClipByNorm.of(sgd, 1) : sgd, 0.5)) {
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            float[] weight = pair.weight.value().toFloats();
            float[] average = averaged.average(0).toFloats();
            assertThat(average).isNotEqualTo(weight);
            averaged.step(Tensor.full(DType.F32, clips ? 1e30 : Double.POSITIVE_INFINITY, SIZE), Tensor.ones(SIZE - 1));
            assertThat(averaged.skipped()).isTrue();
            assertThat(pair.weight.value().toFloats()).isEqualTo(weight);
            assertThat(averaged.average(0).toFloats()).isEqualTo(average);
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            assertThat(averaged.average(0).toFloats()).isNotEqualTo(average);
        }
    }

    @Test
    void followsTheShapesOfRestartsPolynomialsAndMilestones() {
        Schedule restarts = Schedule.cosineRestarts(1, 0.2, 10, 2);
        assertThat(restarts.rate(0)).isEqualTo(1);
        assertThat(restarts.rate(5)).isCloseTo(0.6, within(1e-12));
        assertThat(restarts.rate(9)).isCloseTo(0.2 + 0.4 * (1 + Math.cos(0.9 * Math.PI)), within(1e-12));
        assertThat(restarts.rate(10)).isEqualTo(1);
        assertThat(restarts.rate(20)).isCloseTo(0.6, within(1e-12));
        assertThat(restarts.rate(30)).isEqualTo(1);
        assertThat(restarts.rate(50)).isCloseTo(0.6, within(1e-12));
        Schedule polynomial = Schedule.polynomial(1, 0.1, 100, 2);
        assertThat(polynomial.rate(50)).isCloseTo(0.1 + 0.9 * 0.25, within(1e-12));
        assertThat(polynomial.rate(1000)).isCloseTo(0.1, within(1e-12));
        Schedule steps = Schedule.multiStep(1, 0.1, 30, 80);
        assertThat(steps.rate(29)).isEqualTo(1);
        assertThat(steps.rate(30)).isCloseTo(0.1, within(1e-12));
        assertThat(steps.rate(79)).isCloseTo(0.1, within(1e-12));
        assertThat(steps.rate(80)).isCloseTo(0.01, within(1e-12));
        assertThatThrownBy(() -> Schedule.multiStep(1, 0.1, 30, 30)).isInstanceOf(TensorException.class);
    }

    @Test
    void scalesAllGradientsByOneFactorWhenClipping() {
        Pair pair = new Pair();
        ClipByNorm sgd = ClipByNorm.of(Sgd.over(pair).rate(1).build(), 2);
        double[] before = pair.weight.value().toDoubles();
        double[] biasBefore = pair.bias.value().toDoubles();
        sgd.step(Tensor.full(DType.F32, 0.1, SIZE), (Tensor) null);
        assertThat(pair.weight.value().toDoubles()[0]).isCloseTo(before[0] - 0.1, within(1e-6));
        sgd.step(Tensor.full(DType.F32, 3, SIZE),
                Tensor.full(DType.F32, 4, SIZE - 1));
        double norm = Math.sqrt(9 * SIZE + 16 * (SIZE - 1));
        assertThat(sgd.norm()).isCloseTo(norm, within(1e-4));
        assertThat(pair.weight.value().toDoubles()[5]).isCloseTo(before[5] - 0.1 - 6 / norm, within(1e-6));
        assertThat(pair.bias.value().toDoubles()[5]).isCloseTo(biasBefore[5] - 8 / norm, within(1e-6));
        float[] unchanged = pair.weight.value().toFloats();
        assertThatThrownBy(() -> sgd.step(Tensor.full(DType.F32, Double.NaN, SIZE), (Tensor) null))
                .isInstanceOf(TensorException.class).hasMessageContaining("NaN");
        assertThat(pair.weight.value().toFloats()).isEqualTo(unchanged);
        assertThat(sgd.steps()).isEqualTo(2);
        sgd.step((Tensor) null, (Tensor) null);
        assertThat(sgd.norm()).as("a step without gradients").isZero();
    }

    /** The square of 1e25 is infinite in f32, and that of 1e-25 is 0. */
    @Test
    void measuresAndClipsGradientsWhoseSquaresF32CannotRepresent() {
        Pair pair = new Pair();
        pair.weight.set(Tensor.zeros(SIZE));
        try (pair; ClipByNorm sgd = ClipByNorm.of(Sgd.over(pair).rate(1).build(), 2);
                GradientNorms norms = GradientNorms.of(sgd)) {
            norms.step(Tensor.full(DType.F32, 1e25, SIZE), Tensor.full(DType.F32, 2, SIZE - 1));
            assertThat(sgd.norm()).isCloseTo(1e25 * Math.sqrt(SIZE), withinPercentage(1e-4));
            assertThat(norms.norm()).isCloseTo(1e25 * Math.sqrt(SIZE), withinPercentage(1e-4));
            double clipped = -2 / Math.sqrt(SIZE);
            for (double weight : pair.weight.value().toDoubles()) {
                assertThat(weight).isCloseTo(clipped, within(1e-6));
            }
            norms.step(Tensor.full(DType.F32, 1e-25, SIZE), (Tensor) null);
            assertThat(norms.norm()).isCloseTo(1e-25 * Math.sqrt(SIZE), withinPercentage(1e-4));
            norms.step(Tensor.full(DType.F32, 3, SIZE), (Tensor) null);
            assertThat(sgd.norm()).isCloseTo(3 * Math.sqrt(SIZE), within(1e-4));
            assertThat(pair.weight.value().toDoubles()[5]).isCloseTo(2 * clipped, within(1e-6));
            assertThatThrownBy(() -> norms.step(Tensor.full(DType.F32, Double.POSITIVE_INFINITY, SIZE), (Tensor) null))
                    .isInstanceOf(TensorException.class).hasMessageContaining("weight has an element that is infinite");
        }
    }

    /** As {@link Adam} says. */
    @Test
    void adamStopsAtASquareThatF32CannotRepresentUnlessGradientsAreClipped() {
        for (boolean clips : new boolean[] {false, true}) {
            Pair pair = new Pair();
            Optimizer adam = Adam.over(pair).rate(0.1).build();
            try (pair; Optimizer all = clips ? ClipByNorm.of(adam, 1) : adam) {
                float[] before = pair.weight.value().toFloats();
                all.step(Tensor.full(DType.F32, 1e25, SIZE), (Tensor) null);
                all.step(Tensor.ones(SIZE), (Tensor) null);
                assertThat(pair.weight.value().toFloats()[5] - before[5]).isCloseTo(clips ? -0.2f : 0, within(1e-5f));
            }
        }
    }

    @Test
    void keepsTheExceptionOfAnEvaluationThatClosesTheModel() {
        Pair pair = new Pair();
        try (AveragedWeights averaged = AveragedWeights.exponential(Sgd.over(pair).rate(0.1).build(), 0.5)) {
            averaged.step(Tensor.ones(SIZE), Tensor.ones(SIZE - 1));
            assertThatThrownBy(() -> averaged.evaluate(() -> {
                pair.close();
                throw new IllegalStateException("the reason");
            })).isInstanceOf(IllegalStateException.class).hasMessage("the reason")
                    .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1));
        }
    }

    /** In f16 the factor would be 0, and in bf16 so large that the norm exceeds the bound by 0.4 %. */
    @Test
    void doesNotRoundTheFactorOfClippingTo16Bits() {
        for (DType type : new DType[] {DType.F16, DType.BF16}) {
            Pair pair = new Pair();
            pair.to(type);
            pair.weight.set(Tensor.zeros(SIZE));
            double bound = type == DType.F16 ? 1e-3 : 1;
            try (pair; Optimizer sgd = ClipByNorm.of(Sgd.over(pair).rate(1).build(), bound)) {
                sgd.step(Tensor.full(type, type == DType.F16 ? 6e4 : 9, SIZE), (Tensor) null);
                double norm = Math.sqrt(SIZE) * Math.abs(pair.weight.value().toDoubles()[5]);
                assertThat(norm).isBetween(0.997 * bound, 1.001 * bound);
            }
        }
    }

    @Test
    void measuresTheNormInTheTypeOfConvertedWeights() {
        Pair pair = new Pair();
        try (pair; ClipByNorm sgd = ClipByNorm.of(Sgd.over(pair).rate(1).build(), 1)) {
            sgd.step(Tensor.ones(SIZE), (Tensor) null);
            pair.to(DType.F64);
            pair.weight.set(Tensor.zeros(SIZE));
            sgd.step(Tensor.full(DType.F64, 1e50, SIZE), (Tensor) null);
            assertThat(sgd.norm()).isCloseTo(1e50 * Math.sqrt(SIZE), within(1e37));
            assertThat(pair.weight.value().toDoubles()[5]).isCloseTo(-1 / Math.sqrt(SIZE), within(1e-12));
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {-1, Double.NaN, Double.POSITIVE_INFINITY})
    void refusesSettingsThatMakeNoSense(double value) {
        Pair pair = new Pair();
        for (ThrowableAssert.ThrowingCallable call : List.<ThrowableAssert.ThrowingCallable>of(
                () -> Adam.over(pair).epsilon(value), () -> Adam.over(pair).weightDecay(value),
                () -> Adam.over(pair).betas(value, 0.9), () -> Adam.over(pair).rate(value),
                () -> AdamW.over(pair).weightDecay(value),
                () -> Adagrad.over(pair).epsilon(value), () -> Adagrad.over(pair).initialSum(value),
                () -> Sgd.over(pair).weightDecay(value), () -> Rmsprop.over(pair).decay(value),
                () -> Rmsprop.over(pair).momentum(value), () -> Rmsprop.over(pair).epsilon(value),
                () -> Lion.over(pair).betas(0.9, value), () -> Sgd.over(pair).weightDecay("bias"::equals, value),
                () -> Sgd.over(pair).rate("bias"::equals, value),
                () -> Sgd.over(pair).momentum(value), () -> Sgd.over(pair).rate(value),
                () -> BatchNorm.of(3, value, 0.1), () -> BatchNorm.of(3, 1e-5, value),
                () -> LayerNorm.withEpsilon(value, 3).forward(Tensor.ones(2, 3)),
                () -> MultiHeadAttention.of(4, 2, Generator.seeded(1)).dropout(value))) {
            assertThatThrownBy(call).isInstanceOf(TensorException.class).hasMessageContaining(String.valueOf(value));
        }
    }

    @Test
    void ignoresChangesOfABuilderAfterBuild() {
        Pair pair = new Pair();
        Adam.Builder adam = Adam.over(pair).rate(0.01).betas(0.8, 0.95).epsilon(1e-6).weightDecay(0.1);
        Optimizer built = adam.build();
        adam.rate(1).betas(0.1, 0.1).epsilon(1).weightDecay(1).only(path -> false).withoutDecay(path -> true);
        Rule rule = adam(0.01, 0.8, 0.95, 1e-6, 0.1, 0);
        assertFollows(pair, built, rule, rule);
        Pair other = new Pair();
        Sgd.Builder sgd = Sgd.over(other).rate(0.1);
        built = sgd.build();
        sgd.rate(1).momentum(0.9).nesterov().weightDecay(1).only(path -> false).withoutDecay(path -> true);
        assertFollows(other, built, (p, g, s, t) -> p - 0.1 * g, (p, g, s, t) -> p - 0.1 * g);
    }

    @Test
    void changesOnlyTheCountIfTheGuardIsNotFinite() {
        Pair pair = new Pair();
        try (Optimizer plain = Adam.over(pair).rate(0.1).build(); ClipByNorm adam = ClipByNorm.of(plain, 1)) {
            Tensor[] gradients = {Tensor.ones(SIZE), Tensor.ones(SIZE - 1).to(DType.F32)};
            adam.step(Tensor.scalar(-3), gradients);
            float[] weight = pair.weight.value().toFloats();
            float[] mean = adam.state().get("weight.mean").value().toFloats();
            assertThat(mean).containsOnly(new float[] {0.1f / (float) Math.sqrt(2 * SIZE - 1)}, within(1e-6f));
            for (double guard : new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
                adam.step(Tensor.scalar(guard), gradients);
                plain.step(Tensor.full(DType.BF16, guard), gradients);
            }
            assertThat(pair.weight.value().toFloats()).isEqualTo(weight);
            assertThat(adam.state().get("weight.mean").value().toFloats()).isEqualTo(mean);
            assertThat(adam.steps()).isEqualTo(7);
            adam.step(Tensor.full(DType.F64, 1e300), gradients);
            assertThat(pair.weight.value().toFloats()).isNotEqualTo(weight);
        }
        pair.close();
    }

    @Test
    void refusesGradientsThatDoNotMatchAndChangesNothing() {
        Pair pair = new Pair();
        Optimizer sgd = Sgd.over(pair).build();
        float[] before = pair.weight.value().toFloats();
        assertThatThrownBy(() -> sgd.step(Tensor.ones(SIZE))).hasMessageContaining("2 gradients");
        assertThatThrownBy(() -> sgd.step(Tensor.ones(SIZE), Tensor.ones(SIZE))).hasMessageContaining("bias");
        assertThat(pair.weight.value().toFloats()).isEqualTo(before);
        assertThatThrownBy(() -> Sgd.over((Layer) x -> x).build()).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Sgd.over(pair).momentum(1)).isInstanceOf(TensorException.class);
    }

    @Test
    void followsTheShapesOfSchedules() {
        Schedule cosine = Schedule.cosine(1, 0.2, 100);
        assertThat(cosine.rate(0)).isEqualTo(1);
        assertThat(cosine.rate(50)).isCloseTo(0.6, within(1e-12));
        assertThat(cosine.rate(100)).isCloseTo(0.2, within(1e-12));
        assertThat(cosine.rate(1000)).isCloseTo(0.2, within(1e-12));
        Schedule decay = Schedule.decay(1, 10, 0.1);
        assertThat(decay.rate(9)).isEqualTo(1);
        assertThat(decay.rate(25)).isCloseTo(0.01, within(1e-12));
        Schedule warm = Schedule.constant(0.5).warmUp(10);
        assertThat(warm.rate(0)).isCloseTo(0.05, within(1e-12));
        assertThat(warm.rate(9)).isCloseTo(0.5, within(1e-12));
        assertThat(warm.rate(99)).isEqualTo(0.5);
        Schedule cycle = Schedule.oneCycle(1, 101);
        assertThat(cycle.rate(0)).isCloseTo(1 / 25.0, within(1e-12));
        assertThat(cycle.rate(29)).isGreaterThan(0.99);
        assertThat(cycle.rate(30)).isGreaterThan(0.99);
        assertThat(cycle.rate(100)).isCloseTo(1 / 250_000.0, within(1e-12));
        assertThatThrownBy(() -> Schedule.cosine(1, 0, 0)).isInstanceOf(TensorException.class);
    }
}
