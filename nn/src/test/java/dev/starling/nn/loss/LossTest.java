package dev.starling.nn.loss;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Tape;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
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
}
