package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.loss.CtcLoss;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Values and gradients of connectionist temporal classification, Starling's and PyTorch's. */
class CtcParityTest {
    private static final int MEAN = 1;
    private static final int NONE = 0;

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    /** With few classes labels repeat; with as many labels as steps some sequences are impossible. */
    @ParameterizedTest
    @CsvSource({"1,1,2,1,0", "3,12,5,4,0", "4,30,3,10,1", "5,6,4,6,3", "2,50,20,20,7", "3,7,3,0,0"})
    void computesAndDifferentiatesAsPyTorch(int rows, int steps, int classes, int labels, int blank) {
        SplittableRandom random = new SplittableRandom(steps);
        long[] targets = new long[rows * labels];
        long[] padded = new long[targets.length];
        long[] counts = new long[rows];
        long[] lengths = new long[rows];
        for (int i = 0; i < rows; i++) {
            counts[i] = i == 1 ? 0 : random.nextInt(labels / 2, labels + 1);
            lengths[i] = i == 0 ? steps : random.nextInt(steps / 2, steps + 1);
            for (int k = 0; k < labels; k++) {
                long label = random.nextInt(classes - 1);
                targets[i * labels + k] = label >= blank ? label + 1 : label;
                padded[i * labels + k] = k < counts[i] ? targets[i * labels + k] : k % 2 == 0 ? -1 : blank;
            }
        }
        float[] logits = Inputs.normal(3, rows, steps, classes);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope()) {
            Tensor x = Tensor.of(logits, rows, steps, classes);
            Tensor target = Tensor.of(padded, rows, labels);
            Tensor length = Tensor.of(lengths);
            CtcLoss loss = Loss.ctc().blank(blank).zeroInfinity();
            Tape tape = new Tape().watch(x);
            Tensor value = tape.record(() -> loss.of(x, target, length));
            float[] gradient = tape.backward(value).of(x).toFloats();
            float[] each = Losses.ctcLoss(x.logSoftmax(2), target, length, blank, Losses.Reduce.NONE, false).toFloats();

            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(logits, rows, steps, classes).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirTarget = Torch.labels(labels == 0 ? new long[rows] : targets)
                    .reshape(rows, Math.max(1, labels));
            org.bytedeco.pytorch.Tensor log = torch.log_softmax(theirX.transpose(0, 1), 2);
            assertThat(each).usingComparatorWithPrecision(1e-4f).containsExactly(Torch.floats(torch.ctc_loss(
                    log.detach(), theirTarget, lengths, counts, blank, NONE, false)));
            org.bytedeco.pytorch.Tensor theirLoss = torch.ctc_loss(log, theirTarget, lengths, counts, blank, MEAN,
                    true);
            theirLoss.backward();
            assertThat(value.toFloats()).usingComparatorWithPrecision(2e-5f).containsExactly(theirLoss.item_float());
            assertThat(gradient).usingComparatorWithPrecision(2e-5f).containsExactly(Torch.floats(theirX.grad()));
            if (steps == 6) {
                assertThat(Arrays.toString(each)).contains("Infinity");
            }
        }
    }
}
