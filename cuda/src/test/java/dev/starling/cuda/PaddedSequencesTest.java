package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Values past a sequence's end, whatever they are, do not affect the gradients of the weights. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class PaddedSequencesTest {
    private static double[] gradients(Device device, boolean reverse, double padding) {
        try (Scope scope = Scope.open()) {
            Recurrence.Forward layer = new Recurrence.Gru(reverse, true);
            Tensor x = Tensor.concat(0, Tensor.ones(3, 1, 3), Tensor.full(DType.F32, padding, 2, 1, 3));
            Tensor[] in = {x, Tensor.ones(1, 2), Tensor.ones(6, 3), Tensor.ones(6, 2), Tensor.of(new long[] {3})};
            Tensor[] there = Arrays.stream(in).map(t -> t.to(device)).toArray(Tensor[]::new);
            Tensor[] out = Tensor.apply(layer, there);
            Tensor[] all = {Tensor.ones(5, 1, 2).to(device), Tensor.ones(1, 2).to(device), out[0], out[2], there[0],
                there[1], there[2], there[3], there[4]};
            Tensor[] gradients = Tensor.apply(layer.gradient(true), all);
            return Tensor.concat(0, gradients[2].reshape(-1), gradients[3].reshape(-1)).toDoubles();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void computesFiniteGradients(boolean reverse) {
        for (Device device : AnyGpu.devices()) {
            double[] expected = gradients(device, reverse, 0);
            for (double padding : List.of(Double.NaN, Double.POSITIVE_INFINITY)) {
                assertThat(gradients(device, reverse, padding)).containsExactly(expected);
            }
        }
    }
}
