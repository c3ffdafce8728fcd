package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * A set of dimensions.
 *
 * @param mask bit {@code i} is set if dimension {@code i} belongs to it
 */
public record Axes(int mask) {
    /**
     * Makes a set from axes of {@code shape}, negative ones counted from the end; without axes, the set of all
     * dimensions.
     */
    public static Axes of(Shape shape, int... axes) {
        if (axes.length == 0) {
            return new Axes((1 << shape.rank()) - 1);
        }
        int mask = 0;
        for (int axis : axes) {
            mask |= 1 << shape.axis(axis);
        }
        return new Axes(mask);
    }

    /** Returns whether dimension {@code axis} belongs to the set. */
    public boolean contains(int axis) {
        return (mask >>> axis & 1) != 0;
    }

    /** Returns {@code shape} with these dimensions set to 1, or removed. */
    public Shape reduce(Shape shape, boolean keepDims) {
        long[] dims = shape.dims();
        long[] out = new long[dims.length];
        int n = 0;
        for (int i = 0; i < dims.length; i++) {
            if (!contains(i)) {
                out[n++] = dims[i];
            } else if (keepDims) {
                out[n++] = 1;
            }
        }
        return Shape.of(java.util.Arrays.copyOf(out, n));
    }

    /** Returns the number of elements of {@code shape} that are reduced to one. */
    public long extent(Shape shape) {
        long n = 1;
        for (int i = 0; i < shape.rank(); i++) {
            n *= contains(i) ? shape.dim(i) : 1;
        }
        return n;
    }

    @Override
    public String toString() {
        List<Integer> axes = new ArrayList<>();
        for (int i = 0; i < 32; i++) {
            if (contains(i)) {
                axes.add(i);
            }
        }
        return axes.toString();
    }
}
