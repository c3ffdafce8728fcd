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

    /** Checks the elements of {@code values} that are not {@code null}. */
    static void check(String op, String what, Tensor[] inputs, Tensor[] values) {
        for (Tensor value : values) {
            if (value != null && value.dtype().isFloating() && containsNan(value)) {
                List<Spec> specs = Arrays.stream(inputs).map(Tensor::spec).toList();
                throw new TensorException(TensorException.Problem.ANOMALY, op, specs, "its " + what + " contains NaN",
                        "check its operands for a division by 0, a logarithm of a negative number or an earlier "
                        + "overflow");
            }
        }
    }

    private static boolean containsNan(Tensor value) {
        return Recorder.with(Recorder.NONE, () -> {
            try (Tensor any = value.isNan().any()) {
                return any.item() != 0;
            }
        });
    }
}
