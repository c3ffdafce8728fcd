package dev.starling.nn.loss;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Constant factors of a loss, one for each class, which are on the device of the logits from the first use on. */
final class Weights {
    private final double[] values;
    private @Nullable Parameter onDevice;

    Weights(String loss, double... values) {
        if (values.length == 0 || Arrays.stream(values).anyMatch(w -> !(w >= 0 && w < Double.POSITIVE_INFINITY))) {
            throw TensorException.argument(loss, "weights must be finite and at least 0, got "
                    + Arrays.toString(values), "pass one for each class");
        }
        this.values = values.clone();
    }

    /** Returns the factors {@code [C]} in type and on the device of {@code like}; with one factor {@code [1]}. */
    synchronized Tensor on(Tensor like) {
        if (onDevice == null) {
            try (Scope scope = Scope.open("weights")) {
                onDevice = Recorder.with(Recorder.NONE, () -> Parameter.buffer(Tensor.of(values)));
            }
        }
        if (onDevice.master().device() != like.device() || onDevice.master().dtype() != like.dtype()) {
            Parameter weights = onDevice;
            Recorder.with(Recorder.NONE, () -> {
                weights.to(like.device());
                weights.to(like.dtype());
                return weights;
            });
        }
        return onDevice.master();
    }

    int count() {
        return values.length;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Weights w && Arrays.equals(values, w.values);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(values);
    }

    @Override
    public String toString() {
        return Arrays.toString(values);
    }
}
