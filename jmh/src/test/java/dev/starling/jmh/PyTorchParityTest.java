package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.jmh.pytorch.Torch;
import dev.starling.jmh.pytorch.TorchModel;
import dev.starling.jmh.pytorch.TorchModel.Layout;
import dev.starling.jmh.pytorch.TorchModels;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.assertj.core.data.Offset;
import org.bytedeco.javacpp.PointerScope;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Starling and PyTorch run some training steps of one network, each step from the same weights on the same batch, with
 * separate optimisers. Losses, all gradients, the updates and the batch norms' running statistics have to agree.
 *
 * <p>PyTorch's own difference between two memory layouts shows how closely they can agree: gradients, taken as one
 * vector, differ by 1e-6 of their norm, and those of a single parameter, where sums cancel, by up to 1e-4. Occasionally
 * rounding moves an input of a ReLU across zero, or changes which element is the maximum of its window; then gradients
 * of that step differ by up to 1e-2, and those of a single parameter by a few times that. Therefore there are tight
 * bounds on medians over the steps and wide ones on each step, and the weights are made equal before each step, since
 * such a difference grows tenfold in a step.
 *
 * <p>The batch norms of ResNet-18 shift by {@value #SHIFT} deviations, so that few of its half a million ReLU inputs
 * per sample are near zero, and its last layer starts small, so that the softmax does not saturate. With the usual
 * initial weights PyTorch's gradients differ from PyTorch's by 1e-2 in most steps.
 */
class PyTorchParityTest {
    private static final float SHIFT = 2.5f;

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    @ParameterizedTest
    @CsvSource({"MLP, SGD, 32, 0.01, 20", "MLP, ADAM, 32, 0.001, 20", "MLP, ADAMW, 32, 0.001, 20",
        "CNN, SGD, 16, 0.001, 20", "RESNET18, SGD, 8, 0.001, 7", "LSTM, SGD, 2, 0.01, 20", "GPT, SGD, 2, 0.001, 20"})
    void followsPyTorch(Model model, Update update, int samples, double learningRate, int steps) {
        double[] together = new double[steps];
        double[] worst = new double[steps];
        try (TorchModel theirs = TorchModels.create(model, Layout.CONTIGUOUS, update, learningRate);
                StarlingModel ours = new StarlingModel(model, update, learningRate)) {
            if (model == Model.RESNET18) {
                theirs.parameters(wellConditioned(theirs.parameters()));
            }
            for (int step = 0; step < steps; step++) {
                List<float[]> before = theirs.parameters();
                ours.parameters(before);
                float[] batch = Inputs.normal(step, model.batchShape(samples));
                long[] labels = Inputs.labels(step, samples);
                float theirLoss = step(theirs, batch, model.batchShape(samples), labels);
                List<float[]> ourGradients = new ArrayList<>();
                float ourLoss = step(ours, batch, model.batchShape(samples), labels, ourGradients);

                assertThat(ourLoss).as("loss of step %d", step)
                    .isCloseTo(theirLoss, Offset.offset(1e-5f * Math.max(1, theirLoss)));
                together[step] = distance(join(ourGradients), join(theirs.gradients()))
                    / norm(join(theirs.gradients()));
                worst[step] = worst(ourGradients, theirs.gradients());
                requireEqualUpdates(before, ours.parameters(), theirs.parameters());
            }
            if (model == Model.RESNET18) {
                assertThat(ours.statistics()).isNotEmpty();
            }
            assertThat(worst(ours.statistics(), theirs.statistics())).as("running statistics").isLessThan(1e-4);
        }
        assertThat(median(together)).as("all gradients, median over steps").isLessThan(1e-5);
        assertThat(max(together)).as("all gradients, each step").isLessThan(1e-2);
        assertThat(median(worst)).as("gradient of any parameter, median over steps").isLessThan(1e-3);
        assertThat(max(worst)).as("gradient of any parameter, each step").isLessThan(6e-2);
    }

    @Test
    @Tag("stress")
    void followsPyTorchInResNetForLong() {
        followsPyTorch(Model.RESNET18, Update.SGD, 8, 0.001, 20);
    }

    /** Updates agree as gradients do, up to the rounding of the parameters. */
    private static void requireEqualUpdates(List<float[]> before, List<float[]> ours, List<float[]> theirs) {
        for (int i = 0; i < before.size(); i++) {
            assertThat(distance(ours.get(i), theirs.get(i))).as("update of parameter %d", i)
                .isLessThanOrEqualTo(6e-2 * distance(theirs.get(i), before.get(i)) + 1e-7 * norm(theirs.get(i)));
        }
    }

    private static float step(TorchModel model, float[] batch, long[] shape, long[] labels) {
        try (PointerScope scope = new PointerScope()) {
            return model.step(model.prepare(Torch.tensor(batch, shape)), Torch.labels(labels));
        }
    }

    private static float step(StarlingModel model, float[] batch, long[] shape, long[] labels,
            List<float[]> collected) {
        try (Scope scope = Scope.open("test")) {
            return model.step(Tensor.of(batch, shape), Tensor.of(labels), (optimizer, gradients) -> {
                for (Parameter parameter : optimizer.parameters()) {
                    collected.add(gradients.of(parameter.value()).toFloats());
                }
            });
        }
    }

    private static List<float[]> wellConditioned(List<float[]> parameters) {
        List<float[]> changed = new ArrayList<>(parameters);
        for (int i = 1; i < changed.size() - 2; i++) {
            if (changed.get(i).length == changed.get(i - 1).length) {
                Arrays.fill(changed.get(i), SHIFT);
            }
        }
        float[] last = changed.get(changed.size() - 2);
        for (int i = 0; i < last.length; i++) {
            last[i] *= 0.1f;
        }
        return Collections.unmodifiableList(changed);
    }

    /** Returns the largest distance of a pair, relative to the norm of PyTorch's value. */
    private static double worst(List<float[]> ours, List<float[]> theirs) {
        assertThat(ours).hasSameSizeAs(theirs);
        double worst = 0;
        for (int i = 0; i < ours.size(); i++) {
            worst = Math.max(worst, distance(ours.get(i), theirs.get(i)) / norm(theirs.get(i)));
        }
        return worst;
    }

    private static double distance(float[] x, float[] y) {
        assertThat(x).hasSameSizeAs(y);
        double sum = 0;
        for (int i = 0; i < x.length; i++) {
            double difference = (double) x[i] - y[i];
            sum += difference * difference;
        }
        return Math.sqrt(sum);
    }

    private static double norm(float[] x) {
        return distance(x, new float[x.length]);
    }

    private static float[] join(List<float[]> parts) {
        float[] all = new float[parts.stream().mapToInt(part -> part.length).sum()];
        int at = 0;
        for (float[] part : parts) {
            System.arraycopy(part, 0, all, at, part.length);
            at += part.length;
        }
        return all;
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return (sorted[sorted.length / 2] + sorted[(sorted.length - 1) / 2]) / 2;
    }

    private static double max(double[] values) {
        return Arrays.stream(values).max().orElseThrow();
    }
}
