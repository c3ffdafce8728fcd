package dev.starling.tensor.conformance;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.View;
import java.util.Arrays;

/** The memory layout of an operand: a view of a larger or differently ordered row-major tensor. */
enum Layout {
    /** Row-major without gaps. */
    DENSE,
    /** Row-major without gaps, after other elements: an offset alone. */
    LATER,
    /** Dimensions in reverse order. */
    TRANSPOSED,
    /** The last two dimensions swapped. */
    SWAPPED,
    /** Every second element of every dimension. */
    STEPPED,
    /** Every dimension backwards. */
    REVERSED,
    /** A block in the middle: gaps between rows, and an offset. */
    INNER,
    /** Dimension 1 last in memory. */
    CHANNELS_LAST,
    /** One slice repeated along the first dimension, with stride 0. */
    REPEATED;

    private static final int AHEAD = 3;

    /** Returns the shape of the tensor of which the operand is a view. */
    Shape base(Shape shape) {
        long[] dims = shape.dims();
        int n = dims.length;
        return switch (this) {
            case DENSE, REVERSED -> shape;
            case LATER -> Shape.of(AHEAD + shape.count());
            case TRANSPOSED, SWAPPED, CHANNELS_LAST -> {
                int[] order = order(n);
                yield Shape.of(Arrays.stream(order).mapToLong(i -> dims[i]).toArray());
            }
            case STEPPED -> Shape.of(Arrays.stream(dims).map(d -> 2 * d + 1).toArray());
            case INNER -> Shape.of(Arrays.stream(dims).map(d -> d + 3).toArray());
            case REPEATED -> n == 0 ? shape : shape.with(0, Math.min(1, dims[0]));
        };
    }

    /** Returns the view of {@code base} that has {@code shape}. */
    Tensor view(Tensor base, Shape shape) {
        int n = shape.rank();
        return switch (this) {
            case DENSE -> base;
            case LATER -> slice(base, filled(1, AHEAD), filled(1, 1), Shape.of(shape.count())).reshape(shape);
            case TRANSPOSED, SWAPPED, CHANNELS_LAST -> {
                int[] order = order(n);
                int[] inverse = new int[n];
                for (int i = 0; i < n; i++) {
                    inverse[order[i]] = i;
                }
                yield base.permute(inverse);
            }
            case STEPPED -> slice(base, filled(n, 1), filled(n, 2), shape);
            case INNER -> slice(base, filled(n, 2), filled(n, 1), shape);
            case REVERSED -> slice(base, Arrays.stream(shape.dims()).map(d -> Math.max(0, d - 1)).toArray(),
                    filled(n, -1), shape);
            case REPEATED -> base.expand(shape);
        };
    }

    /** Returns the dimension of the operand that is the i-th in memory. */
    private int[] order(int n) {
        int[] order = new int[n];
        Arrays.setAll(order, i -> this == TRANSPOSED ? n - 1 - i : i);
        if (this == SWAPPED && n >= 2) {
            order[n - 2] = n - 1;
            order[n - 1] = n - 2;
        }
        if (this == CHANNELS_LAST && n >= 2) {
            Arrays.setAll(order, i -> i == 0 ? 0 : i == n - 1 ? 1 : i + 1);
        }
        return order;
    }

    private static Tensor slice(Tensor base, long[] starts, long[] steps, Shape shape) {
        return Tensor.compute(new View.Slice(starts, steps, shape.dims()), base);
    }

    private static long[] filled(int n, long value) {
        long[] a = new long[n];
        Arrays.fill(a, value);
        return a;
    }
}
