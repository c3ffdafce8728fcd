package dev.starling.cuda.blas;

import dev.starling.tensor.DType;

/** A library that multiplies matrices on a device. Safe for use by several threads. */
public interface Blas {
    /** Tells whether it multiplies matrices of a type. */
    boolean takes(DType type);

    /**
     * Queues a product.
     *
     * @param call what to multiply and how
     * @param a address of the product's left operand
     * @param b address of the right operand
     * @param bias address of the values that are added, or where sums of columns go, or 0 where the call has neither
     * @param side address of the side matrix, or 0 where the call has none
     * @param y address of the result
     * @return whether it could; where not, nothing was queued
     */
    boolean multiply(MatrixCall call, long a, long b, long bias, long side, long y);
}
