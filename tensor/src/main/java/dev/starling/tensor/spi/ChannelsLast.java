package dev.starling.tensor.spi;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;

/**
 * The layout of images in which the channels of a pixel are adjacent. Convolutions produce it; operations beside them
 * keep it.
 */
public final class ChannelsLast {
    private ChannelsLast() {
    }

    /** Returns the strides of {@code [N, C, *spatial]} with channels innermost and no gaps. */
    public static long[] strides(Shape shape) {
        int rank = shape.rank();
        long[] strides = new long[rank];
        long next = shape.dim(1);
        strides[1] = 1;
        for (int i = rank - 1; i >= 2; i--) {
            strides[i] = next;
            next *= shape.dim(i);
        }
        strides[0] = next;
        return strides;
    }

    /** Returns whether a tensor has this layout; strides of dimensions of size 1 do not matter. */
    public static boolean holds(Tensor x) {
        Shape shape = x.shape();
        long next = shape.dim(1);
        if (next > 1 && x.stride(1) != 1) {
            return false;
        }
        for (int i = shape.rank() - 1; i >= 2; i--) {
            if (shape.dim(i) > 1 && x.stride(i) != next) {
                return false;
            }
            next *= shape.dim(i);
        }
        return shape.dim(0) <= 1 || x.stride(0) == next;
    }
}
