package dev.starling.nn.loss;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Constant factors of a loss, one for each class, which are kept for each device and type of logits. */
final class Weights {
    private final double[] values;
    /** A tape may hold any of them, so they live as long as the loss. */
    private final Map<Place, Parameter> placed = new HashMap<>();

    private record Place(Device device, DType type) { }

    Weights(String loss, double... values) {
        if (values.length == 0 || Arrays.stream(values).anyMatch(w -> !(w >= 0 && w < Double.POSITIVE_INFINITY))) {
            throw TensorException.argument(loss, "weights must be finite and at least 0, got "
                    + Arrays.toString(values), "pass one for each class");
        }
        this.values = values.clone();
    }

    /** Returns the factors {@code [C]} in type and on the device of {@code like}; with one factor {@code [1]}. */
    synchronized Tensor on(Tensor like) {
        return placed.computeIfAbsent(new Place(like.device(), like.dtype()), place -> {
            try (Scope scope = Scope.open("weights")) {
                return Recorder.with(Recorder.NONE, () -> Parameter.buffer(Tensor.of(values).to(place.device)
                        .to(place.type)));
            }
        }).master();
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
