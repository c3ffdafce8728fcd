package dev.starling.nn.loss;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.GradientCheck;
import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.layer.Linear;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Losses and their gradients by their formulas, which are those of the functions of the same purpose in PyTorch. */
class LossTest {
    private static final double[] RESULT = {1, -2, 0.5};
    private static final double[] TARGET = {0, 1, 1};

    private static void check(Loss loss, double expected, double... slopes) {
        try (Scope scope = Scope.open()) {
            Tensor result = Tensor.of(RESULT, 3, 1);
            Tensor target = Tensor.of(TARGET, 3, 1);
            Tape tape = new Tape().watch(result);
            Tensor value = tape.record(() -> loss.of(result, target));
            assertThat(value.item()).isCloseTo(expected, within(1e-12));
            assertThat(tape.backward(value).get(result).toDoubles()).containsExactly(slopes, within(1e-12));
        }
    }

    private static double sigmoid(double x) {
        return 1 / (1 + Math.exp(-x));
    }

    /** The negative logarithms of 1 - σ(1), σ(-2) and σ(0.5). */
    @Test
    void computesBinaryCrossEntropyOfLogits() {
        check(Loss.binaryCrossEntropy(),
                (Math.log1p(Math.exp(1)) + Math.log1p(Math.exp(2)) + Math.log1p(Math.exp(-0.5))) / 3,
                sigmoid(1) / 3, (sigmoid(-2) - 1) / 3, (sigmoid(0.5) - 1) / 3);
    }

    @Test
    void computesTheMeanAbsoluteError() {
        check(Loss.meanAbsolute(), 4.5 / 3, 1 / 3.0, -1 / 3.0, -1 / 3.0);
    }

    @Test
    void computesTheMeanSquaredError() {
        check(Loss.meanSquared(), 10.25 / 3, 2 / 3.0, -2, -1 / 3.0);
    }

    /** Differences of 1 and -0.5 are within delta = 2; -3 is beyond it and counts δ(|d| - δ/2). */
    @Test
    void computesTheHuberLoss() {
        check(Loss.huber(2), (0.5 + 4 + 0.125) / 3, 1 / 3.0, -2 / 3.0, -0.5 / 3);
    }

    /** The teacher's probabilities at temperature 2 are 3/4 and 1/4, the student's 1/2 each. */
    @Test
    void computesTheDivergenceFromATeacher() {
        try (Scope scope = Scope.open()) {
            Tensor student = Tensor.of(new double[] {1, 1}, 1, 2);
            Tensor teacher = Tensor.of(new double[] {2 * Math.log(3), 0}, 1, 2);
            Tape tape = new Tape().watch(student);
            Tensor value = tape.record(() -> Loss.distillation(2).of(student, teacher));
            assertThat(value.item()).isCloseTo(4 * (0.75 * Math.log(1.5) + 0.25 * Math.log(0.5)), within(1e-12));
            assertThat(tape.backward(value).get(student).toDoubles()).containsExactly(new double[] {-0.5, 0.5},
                    within(1e-12));
            assertThat(Loss.distillation(2).of(teacher, teacher).item()).isZero();
        }
        assertThatThrownBy(() -> Loss.distillation(0)).isInstanceOf(TensorException.class);
    }

    /** The value is that of the loss plus the penalty, and its gradient reaches only the chosen weights. */
    @Test
    void addsPenaltiesOnChosenWeights() {
        try (Scope scope = Scope.open(); Linear model = Linear.of(2, 1, Generator.seeded(1))) {
            Tensor x = Generator.seeded(2).normal(3, 2);
            Tensor y = Tensor.zeros(3, 1);
            Tensor weight = model.weight().value();
            Loss plain = Loss.meanSquared();
            Loss penalised = plain.plusL2(model, "weight"::equals, 0.5).plusL1(model, "weight"::equals, 0.25);
            Tape tape = new Tape().watch(weight, model.bias().value());
            Tensor loss = tape.record(() -> penalised.of(model.forward(x), y));
            assertThat(loss.item()).isCloseTo(plain.of(model.forward(x), y).item() + 0.5 * weight.square().sum().item()
                    + 0.25 * weight.abs().sum().item(), within(1e-6));
            Gradients gradients = tape.backward(loss);
            Tape other = new Tape().watch(weight, model.bias().value());
            Gradients without = other.backward(other.record(() -> plain.of(model.forward(x), y)));
            assertThat(gradients.of(weight).toDoubles()).containsExactly(without.of(weight).add(weight)
                    .add(weight.sign().mul(0.25)).toDoubles(), within(1e-6));
            assertThat(gradients.of(model.bias().value()).toDoubles()).containsExactly(
                    without.of(model.bias().value()).toDoubles(), within(1e-7));
            assertThatThrownBy(() -> plain.plusL2(model, "head"::equals, 1)).hasMessageContaining("[weight, bias]");
        }
    }

    /** In f16 the sum of the first weights is infinite, and the squares of the second are 0. */
    @Test
    void addsUpPenaltiesOn16BitWeightsInF32() {
        try (Scope scope = Scope.open(); Linear model = Linear.of(300, 300, Generator.seeded(1))) {
            model.to(DType.F16);
            Tensor zeros = Tensor.full(DType.F16, 0, 1);
            model.weight().set(Tensor.ones(300, 300));
            assertThat(Loss.meanSquared().plusL1(model, "weight"::equals, 1e-5).of(zeros, zeros).item())
                    .isCloseTo(0.9, within(1e-6));
            model.weight().set(Tensor.full(DType.F32, 1e-4, 300, 300));
            Loss squares = Loss.meanSquared().plusL2(model, "weight"::equals, 1);
            assertThat(squares.of(zeros, zeros).item()).isCloseTo(9e-4, within(2e-6));
        }
    }

    @Test
    void refusesWeightsAndResultsOfOtherSizes() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.zeros(4, 3);
            Tensor classes = Tensor.of(new long[] {0, 1, 2, 0});
            assertThatThrownBy(() -> Loss.crossEntropy().weights(1, 2).of(logits, classes))
                    .hasMessageContaining("2 weights for 3 classes");
            assertThatThrownBy(() -> Loss.crossEntropy().weights(1, -2)).hasMessageContaining("at least 0");
            assertThatThrownBy(() -> Loss.binaryCrossEntropy().positiveWeight(1, 2).of(logits, logits))
                    .hasMessageContaining("2 positive weights");
            assertThatThrownBy(() -> Loss.triplet(1).of(logits, classes)).hasMessageContaining("[N, 3, D]");
            assertThatThrownBy(() -> Loss.gaussian().of(logits, logits)).hasMessageContaining("[.., 2]");
            assertThatThrownBy(() -> Loss.hinge().of(logits, classes)).hasMessageContaining("same shape");
        }
    }

    /** Negative indices count from the end, but a negative target is no class. */
    @Test
    void refusesNegativeTargetsThatAreNotIgnored() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.of(new float[] {1, 2, 3}, 1, 3);
            Tensor target = Tensor.of(new long[] {-1});
            for (Loss loss : List.<Loss>of(Loss.crossEntropy(), Loss.crossEntropy().weights(1, 1, 1),
                    Loss.crossEntropy().focal(2), Loss.crossEntropy().ignoring(-100))) {
                for (Tensor each : new Tensor[] {target, target.to(DType.I32)}) {
                    assertThatThrownBy(() -> loss.of(logits, each)).isInstanceOf(TensorException.class);
                    assertThatThrownBy(() -> loss.rows(logits, each)).isInstanceOf(TensorException.class);
                }
            }
            assertThat(Loss.crossEntropy().weights(1, 1, 1).ignoring(-1).rows(logits, target).item()).isZero();
        }
    }

    @Test
    void namesTheTargetThatIsNoClass() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.of(new float[] {1, 2, 3, 3, 2, 1}, 2, 3);
            for (Loss loss : List.<Loss>of(Loss.crossEntropy(), Loss.crossEntropy().weights(1, 1, 1),
                    Loss.crossEntropy().focal(2), Loss.crossEntropy(0.1).weights(1, 1, 1))) {
                for (long bad : new long[] {-100, 3, Long.MIN_VALUE}) {
                    assertThatThrownBy(() -> loss.of(logits, Tensor.of(new long[] {0, bad})))
                            .hasMessageContaining("crossEntropy: the target of row 1, class " + bad);
                }
            }
        }
    }

    @Test
    void isNotANumberIfTheTargetOfACosineIsNone() {
        try (Scope scope = Scope.open()) {
            Tensor pairs = Generator.seeded(1).normal(2, 2, 3);
            Tensor losses = Loss.cosineEmbedding(0.1).rows(pairs, Tensor.of(new float[] {Float.NaN, 1}));
            assertThat(losses.toFloats()[0]).isNaN();
            assertThat(losses.toFloats()[1]).isFinite();
        }
    }

    @Test
    void refusesSharesBeyondTheirRange() {
        for (double share : new double[] {2, -0.5, Double.NaN}) {
            assertThatThrownBy(() -> Loss.crossEntropy(share)).isInstanceOf(TensorException.class);
            assertThatThrownBy(() -> Loss.crossEntropy().weights(1, 2).smoothing(share))
                    .isInstanceOf(TensorException.class).hasMessageContaining("0 <= smoothing <= 1");
        }
    }

    @Test
    void refusesProbabilitiesBesideWeightsOfClasses() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.zeros(2, 2);
            Tensor shares = Tensor.eye(2);
            for (Loss loss : List.<Loss>of(Loss.crossEntropy().weights(1, 10), Loss.crossEntropy().focal(2))) {
                for (Runnable call : new Runnable[] {() -> loss.of(logits, shares), () -> loss.rows(logits, shares),
                    () -> loss.weighted(logits, shares, Tensor.ones(2))}) {
                    assertThatThrownBy(call::run).isInstanceOf(TensorException.class).hasMessageContaining("argmax(1)");
                }
            }
        }
    }

    /** As many targets as positions are not enough: those of [3, 2] belong to other positions than those of [2, 3]. */
    @Test
    void needsTargetsOfTheOtherDimensionsThanTheNamedOne() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Generator.seeded(3).normal(2, 3, 4);
            Tensor target = Tensor.of(new long[6], 3, 2);
            Loss last = Loss.crossEntropyOfLast();
            assertThatThrownBy(() -> last.of(logits, target)).hasMessageContaining("targets must be [2, 3]");
            assertThatThrownBy(() -> last.rows(logits, target)).hasMessageContaining("targets must be [2, 3]");
            Tensor column = Tensor.of(new long[6], 6, 1);
            Loss weighted = Loss.crossEntropy().classesIn(1).weights(1, 2, 3, 4);
            assertThatThrownBy(() -> weighted.of(logits.reshape(6, 4), column))
                    .hasMessageContaining("targets must be [6]").hasMessageContaining("squeeze(-1)");
            assertThat(last.of(logits, target.reshape(2, 3)).item()).isPositive();
            assertThat(last.of(logits, logits.softmax(-1)).item()).isPositive();
        }
    }

    /** The tape holds the weights of both types until the backward pass, and neither is made from the other. */
    @Test
    void weighsResultsOfTwoTypesInOneRecording() {
        try (Scope scope = Scope.open()) {
            Loss loss = Loss.crossEntropy().weights(0.1, 0.3);
            Tensor x = Generator.seeded(3).normal(4, 2);
            Tensor wide = x.to(DType.F64);
            Tensor classes = Tensor.of(new long[] {0, 1, 0, 1});
            Tape tape = new Tape().watch(x);
            Tensor sum = tape.record(() -> loss.of(x, classes).add(loss.of(x.to(DType.F64), classes)));
            assertThat(tape.backward(sum).of(x).abs().sum().item()).isPositive();
            assertThat(loss.of(wide, classes).item()).isEqualTo(Loss.crossEntropy().weights(0.1, 0.3).of(wide, classes)
                    .item());
        }
    }

    /** A formula that subtracts logits from their softplus gives 0. */
    @Test
    void keepsSmallBinaryCrossEntropies() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {20, -20}, 2);
            Tensor y = Tensor.of(new float[] {1, 0}, 2);
            double expected = Math.log1p(Math.exp(-20));
            Tape tape = new Tape().watch(x);
            Tensor loss = tape.record(() -> Loss.binaryCrossEntropy().of(x, y));
            assertThat(loss.item()).isCloseTo(expected, within(1e-5 * expected));
            assertThat(tape.backward(loss).of(x).toDoubles()).containsExactly(new double[] {-sigmoid(-20) / 2,
                sigmoid(-20) / 2}, within(1e-5 * expected));
            Tensor infinite = Tensor.of(new float[] {Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}, 2);
            assertThat(Loss.binaryCrossEntropy().of(infinite, y.neg().add(1)).item()).isInfinite();
            assertThat(Loss.binaryCrossEntropy().of(x, y.to(DType.U8)).item()).isEqualTo(loss.item());
        }
    }

    @Test
    void takesClassesOf32BitsAsThoseOf64() {
        try (Scope scope = Scope.open()) {
            Tensor x = Generator.seeded(3).normal(4, 2).to(DType.F64);
            Tensor classes = Tensor.of(new long[] {0, 1, 0, 1});
            for (Loss loss : List.<Loss>of(Loss.crossEntropy(), Loss.crossEntropy().weights(1, 5),
                    Loss.crossEntropy().focal(2), Loss.crossEntropy().focal(2).ignoring(-100),
                    Loss.crossEntropy().weights(1, 5).ignoring(0))) {
                Tensor narrow = classes.to(DType.I32);
                assertThat(loss.of(x, narrow).item()).as(loss.toString()).isEqualTo(loss.of(x, classes).item());
                assertThat(loss.rows(x, narrow).toDoubles()).isEqualTo(loss.rows(x, classes).toDoubles());
            }
        }
    }

    /** The slope of the root of 1 - p is infinite at p = 1. */
    @Test
    void hasNoGradientOfFocalLossWhereTheAnswerIsCertain() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {200, 0}, 1, 2);
            Map<Loss, Tensor> targets = Map.of(Loss.crossEntropy().focal(0.5), Tensor.of(new long[] {0}),
                    Loss.binaryCrossEntropy().focal(-1, 0.5), Tensor.of(new float[] {1, 0.5f}, 1, 2));
            targets.forEach((loss, target) -> {
                Tape tape = new Tape().watch(x);
                Tensor value = tape.record(() -> loss.of(x, target));
                assertThat(value.item()).as(loss.toString()).isFinite();
                assertThat(Math.abs(tape.backward(value).of(x).toFloats()[0])).as(loss.toString()).isZero();
            });
        }
    }

    /** The product of the squares of both lengths is infinite in f32. */
    @Test
    void computesCosinesOfLongRows() {
        try (Scope scope = Scope.open()) {
            Tensor rows = Tensor.of(new float[] {3e10f, 4e10f, 6e10f, 8e10f}, 1, 2, 2);
            assertThat(Loss.cosine().of(rows.narrow(1, 0, 1), rows.narrow(1, 1, 1)).item()).isCloseTo(0, within(1e-6));
            assertThat(Loss.cosineEmbedding(0).of(rows, Tensor.ones(1)).item()).isCloseTo(0, within(1e-6));
        }
    }

    /** Processes that train together compare these texts. */
    @Test
    void describesSumsByAllTheirSettings() {
        try (Linear model = Linear.of(2, 1, Generator.seeded(1))) {
            Loss plain = Loss.crossEntropy(0.1);
            List<Loss> all = List.of(plain, plain.times(2), plain.times(3), plain.plus(plain),
                    plain.plus(Loss.crossEntropy()), plain.plusL1(model, path -> true, 0.5),
                    plain.plusL2(model, path -> true, 0.5), plain.plusL2(model, path -> true, 0.25),
                    plain.plusL2(model, "bias"::equals, 0.5));
            assertThat(all.stream().map(Loss::describe)).doesNotHaveDuplicates();
            assertThat(plain.times(2).describe()).isEqualTo(Loss.crossEntropy(0.1).times(2).describe())
                    .contains("smoothing=0.1", "2.0");
        }
    }

    /** The loss of a row is that of a batch of this row, and the weighted loss the mean of weighted rows. */
    @Test
    void weightsRows() {
        try (Scope scope = Scope.open()) {
            Tensor x = Generator.seeded(3).normal(4, 5, 2).to(DType.F64);
            Tensor pixels = Tensor.of(new long[] {0, 1, 4, 3, 2, 0, 1, 1}, 4, 2);
            Tensor shares = x.softmax(1);
            Map<Loss, Tensor> targets = Map.of(Loss.crossEntropy(0.1).classesIn(1), pixels,
                    Loss.crossEntropy().classesIn(1).weights(1, 2, 3, 4, 5), pixels,
                    Loss.crossEntropy().classesIn(1).ignoring(3), pixels, Loss.crossEntropy().classesIn(1), shares,
                    Loss.binaryCrossEntropy(), shares, Loss.dice(), shares, Loss.meanSquared(), shares,
                    Loss.huber(0.5), shares, Loss.gaussian(), x.narrow(2, 0, 1).squeeze(2), Loss.cosine(), shares);
            Tensor weights = Tensor.of(new double[] {1.0, 0, 2, 0.5});
            targets.forEach((loss, target) -> {
                double expected = 0;
                double[] rows = loss.rows(x, target).toDoubles();
                for (int i = 0; i < 4; i++) {
                    double own = loss.of(x.narrow(0, i, 1), target.narrow(0, i, 1)).item();
                    assertThat(rows[i]).as(loss.toString()).isCloseTo(own, within(1e-12));
                    expected += weights.toDoubles()[i] * own / 4;
                }
                assertThat(loss.weighted(x, target, weights).item()).isCloseTo(expected, within(1e-12));
                Loss sum = loss.times(2).plus(loss);
                assertThat(sum.weighted(x, target, weights).item()).isCloseTo(3 * expected, within(1e-12));
                Tape tape = new Tape().watch(x);
                Tensor gradient = tape.backward(tape.record(() -> loss.weighted(x, target, weights))).of(x);
                assertThat(gradient.narrow(0, 1, 1).abs().sum().item()).as("a row of weight 0").isZero();
                assertThat(gradient.narrow(0, 2, 1).abs().sum().item()).isPositive();
            });
            assertThatThrownBy(() -> Loss.dice().weighted(x, shares, Tensor.of(new double[] {1.0, 2})))
                    .hasMessageContaining("same shape");
        }
    }

    /** In f16 these squares and sums are infinite, and the small numbers that avoid divisions by 0 are 0. */
    @Test
    void computesInF32From16BitResults() {
        try (Scope scope = Scope.open()) {
            Tensor zeros = Tensor.full(DType.F16, 0, 2, 3);
            assertThat(Loss.cosine().of(zeros, zeros).item()).isEqualTo(1);
            assertThat(Loss.meanSquared().of(Tensor.full(DType.F16, 300, 2), Tensor.zeros(2)).item())
                    .isEqualTo(90_000);
            Tensor image = Tensor.full(DType.F16, 20, 1, 70_000);
            assertThat(Loss.dice().of(image, Tensor.ones(1, 70_000)).item()).isCloseTo(0, within(1e-6));
            Tensor equal = Tensor.full(DType.F16, 0, 1, 3, 2);
            Tape tape = new Tape().watch(equal);
            Tensor loss = tape.record(() -> Loss.triplet(1).of(equal, Tensor.zeros(1)));
            assertThat(tape.backward(loss).of(equal).isFinite().all().item()).isEqualTo(1);
            Tensor certain = Tensor.full(DType.F16, 20, 1);
            Tape focal = new Tape().watch(certain);
            Tensor small = focal.record(() -> Loss.binaryCrossEntropy().focal(-1, 0.5).of(certain, Tensor.ones(1)));
            assertThat(focal.backward(small).of(certain).isFinite().all().item()).isEqualTo(1);
        }
    }

    /** Two steps give one label by the paths aa, a-, -a; three steps the labels ab by five paths. */
    @Test
    void addsUpThePathsOfCtc() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.zeros(1, 2, 3).to(DType.F64);
            assertThat(Loss.ctc().of(logits, Tensor.of(new long[] {1}, 1, 1)).item())
                    .isCloseTo(-Math.log(3.0 / 9), within(1e-12));
            Tensor three = Tensor.zeros(1, 3, 3).to(DType.F64);
            assertThat(Loss.ctc().of(three, Tensor.of(new long[] {1, 2, -1}, 1, 3)).item())
                    .isCloseTo(-Math.log(5.0 / 27) / 2, within(1e-12));
            Tensor repeated = Tensor.of(new long[] {1, 1}, 1, 2);
            assertThat(Loss.ctc().of(logits, repeated).item()).isInfinite();
            assertThat(Loss.ctc().zeroInfinity().of(logits, repeated).item()).isZero();
            assertThat(Loss.ctc().blank(2).of(three, Tensor.of(new long[] {0, 0}, 1, 2)).item())
                    .isCloseTo(-Math.log(1.0 / 27) / 2, within(1e-12));
            assertThatThrownBy(() -> Loss.ctc().of(logits, repeated.squeeze(0))).hasMessageContaining("[N, T, C]");
            assertThatThrownBy(() -> Loss.ctc().blank(3).of(logits, repeated)).hasMessageContaining("blank");
        }
    }

    @Test
    void differentiatesCtc() {
        try (Scope scope = Scope.open()) {
            Tensor target = Tensor.of(new long[] {1, 2, 2, 3, -1, -1, 2, 1, 0, -1, -1, -1}, 4, 3);
            Tensor lengths = Tensor.of(new long[] {5, 3, 4, 0});
            GradientCheck.check(in -> Loss.ctc().of(in[0], target, lengths),
                    Generator.seeded(5).normal(4, 5, 4).to(DType.F64));
        }
    }

    /** Batches of padded rows have different shapes. */
    @Test
    void divisorsWeighBatchesOfDifferentShapes() {
        try (Scope scope = Scope.open()) {
            Generator random = Generator.seeded(3);
            Tensor[] x = {random.normal(2, 3, 5), random.normal(4, 3, 2)};
            Tensor[] y = {random.uniform(2, 3, 5), random.uniform(4, 3, 2)};
            for (Loss loss : new Loss[] {Loss.meanSquared(), Loss.huber(1), Loss.binaryCrossEntropy(),
                    Loss.binaryCrossEntropy().focal(0.25, 2), Loss.crossEntropy(), Loss.meanSquared().times(2)}) {
                double sum = 0;
                double divisor = 0;
                for (int i = 0; i < x.length; i++) {
                    sum += loss.of(x[i], y[i]).item() * loss.divisor(x[i], y[i]);
                    divisor += loss.divisor(x[i], y[i]);
                }
                double expected = loss.of(positions(x), positions(y)).item();
                assertThat(sum / divisor).as(loss.describe()).isCloseTo(expected, within(1e-5));
            }
        }
    }

    private static Tensor positions(Tensor... each) {
        return Tensor.concat(0, each[0].movedim(1, -1).reshape(-1, 3), each[1].movedim(1, -1).reshape(-1, 3));
    }
}
