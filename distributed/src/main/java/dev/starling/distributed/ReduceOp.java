package dev.starling.distributed;

/**
 * The operation by which a collective reduces the elements of all ranks. Sums and products of 16-bit floats are
 * computed in f32 and rounded once, for any number of ranks; over a network, partial results of more than two ranks
 * therefore travel as f32.
 */
public enum ReduceOp {
    /** The sum; integers wrap around. */
    SUM,
    /** The sum times the reciprocal of the number of ranks; for integers the quotient, truncated towards zero. */
    AVERAGE,
    /** The product; integers wrap around. */
    PRODUCT,
    /** The minimum; NaN if any element is NaN. */
    MIN,
    /** The maximum; NaN if any element is NaN. */
    MAX
}
