package dev.starling.autograd;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/** Checks recorded results and gradients for NaN. */
final class Anomaly {
    private Anomaly() {
    }

    static void check(String op, String what, Tensor[] inputs, Tensor value) {
        if (!value.dtype().isFloating()) {
            return;
        }
        boolean nan = Recorder.with(Recorder.NONE, () -> {
            try (Tensor any = value.isNan().any()) {
                return any.item() != 0;
            }
        });
        if (nan) {
            List<Spec> specs = Arrays.stream(inputs).map(Tensor::spec).toList();
            throw new TensorException(TensorException.Problem.ANOMALY, op, specs, "its " + what + " contains NaN",
                    "check its operands for a division by 0, a logarithm of a negative number or an earlier overflow");
        }
    }
}
