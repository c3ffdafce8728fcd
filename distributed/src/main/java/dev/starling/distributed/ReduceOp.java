package dev.starling.distributed;

/**
 * The operation by which a collective reduces the elements of all ranks. Sums and products of 16-bit floats are
 * computed in f32 and rounded once, for any number of ranks, and sums for an average of i32 in i64; over a network,
 * partial results of more than two ranks therefore travel in that type.
 */
public enum ReduceOp {
    /** The sum; integers wrap around. */
    SUM,
    /**
     * The sum times the reciprocal of the number of ranks; for integers the quotient, truncated towards zero. The sum
     * wraps around only for i64.
     */
    AVERAGE,
    /** The product; integers wrap around. */
    PRODUCT,
    /** The minimum; NaN if any element is NaN. */
    MIN,
    /** The maximum; NaN if any element is NaN. */
    MAX
}
