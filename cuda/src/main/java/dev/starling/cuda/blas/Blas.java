package dev.starling.cuda.blas;

import dev.starling.tensor.DType;

/** A library that multiplies matrices on a device. Safe for use by several threads. */
public interface Blas {
    /** Returns whether the library multiplies matrices of a type. */
    boolean supports(DType type);

    /**
     * Queues a product.
     *
     * @param call sizes, layouts, type and epilogue of the product
     * @param a address of the product's left operand
     * @param b address of the right operand
     * @param bias address of the bias, or of the result of column sums; 0 if the call has neither
     * @param side address of the side matrix, or 0 if the call has none
     * @param y address of the result
     * @return whether the product was queued; if not, the library cannot compute it
     */
    boolean multiply(MatrixCall call, long a, long b, long bias, long side, long y);
}
