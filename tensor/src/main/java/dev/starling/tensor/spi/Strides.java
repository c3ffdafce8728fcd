package dev.starling.tensor.spi;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/** Memory layouts of results. */
public final class Strides {
    private Strides() {
    }

    /**
     * Returns dense strides for {@code shape} with the last dimension innermost. The other dimensions have the order in
     * which {@code x}, if it has the same rank, stores them, so that merging attention heads that were split apart
     * needs no copy.
     */
    public static long[] like(Tensor x, Shape shape) {
        int rank = shape.rank();
        if (x.rank() != rank) {
            return shape.sharedStrides();
        }
        Integer[] order = new Integer[rank - 1];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (a, b) -> Long.compare(Math.abs(x.stride(b)), Math.abs(x.stride(a))));
        long[] strides = new long[rank];
        strides[rank - 1] = 1;
        long next = shape.dim(-1);
        for (int i = rank - 2; i >= 0; i--) {
            strides[order[i]] = next;
            next *= shape.dim(order[i]);
        }
        return strides;
    }
}
