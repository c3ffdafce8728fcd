package dev.starling.autograd;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.View;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

/**
 * The gradients of several slices of one tensor, from which the tensor's own is made once all are known. If the slices
 * divide the tensor along one dimension, as queries, keys and values divide their projection, the gradients are joined,
 * without a copy if they are already parts of one tensor. Otherwise each is placed into zeros, and the results are
 * added.
 */
final class SliceGradients {
    private final List<Part> parts = new ArrayList<>(4);

    private record Part(View.Slice slice, Tensor gradient) { }

    void add(View.Slice slice, Tensor gradient) {
        parts.add(new Part(slice, gradient));
    }

    /** Returns the gradient of the sliced tensor. */
    Tensor sum(Shape shape) {
        for (int axis = 0; axis < shape.rank(); axis++) {
            if (divided(axis, shape)) {
                return Tensor.compute(new Movement.Concat(axis, true), all());
            }
        }
        Tensor sum = null;
        for (Part part : parts) {
            Tensor placed = Tensor.compute(
                    new Movement.Place(shape, part.slice.starts(), part.slice.steps(), 0), part.gradient);
            sum = sum == null ? placed : sum.add(placed);
        }
        return Objects.requireNonNull(sum, "slices");
    }

    Tensor[] all() {
        Tensor[] all = new Tensor[parts.size()];
        Arrays.setAll(all, i -> parts.get(i).gradient);
        return all;
    }

    /** Orders the slices along a dimension, and returns whether they divide it without gap or overlap. */
    private boolean divided(int axis, Shape shape) {
        List<Part> ordered = new ArrayList<>(parts);
        ordered.sort(Comparator.comparingLong(part -> part.slice.starts()[axis]));
        long end = 0;
        for (Part part : ordered) {
            for (int d = 0; d < shape.rank(); d++) {
                long size = part.slice.sizes()[d];
                if (part.slice.starts()[d] != (d == axis ? end : 0) || d != axis && size != shape.dim(d)
                        || size > 1 && part.slice.steps()[d] != 1) {
                    return false;
                }
            }
            end += part.slice.sizes()[axis];
        }
        if (end != shape.dim(axis)) {
            return false;
        }
        parts.clear();
        parts.addAll(ordered);
        return true;
    }
}
