package dev.starling.tensor.spi;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/** Memory layouts that backends give to results. */
public final class Strides {
    private Strides() {
    }

    /**
     * Returns strides without gaps for {@code shape}, with the last dimension innermost and the others in the order in
     * which {@code x}, if it has as many, has them in memory: so that heads which were taken apart come together again
     * where they lay.
     */
    public static long[] like(Tensor x, Shape shape) {
        int rank = shape.rank();
        if (x.rank() != rank) {
            return shape.contiguousStrides();
        }
        Integer[] order = new Integer[rank - 1];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (a, b) -> Long.compare(Math.abs(x.strides()[b]), Math.abs(x.strides()[a])));
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
