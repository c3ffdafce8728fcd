package dev.starling.distributed;

/**
 * How elements of several ranks become one. Sums and products of 16-bit floats are kept in f32 and rounded once,
 * however many ranks there are; between more than two over a network, partial ones therefore travel as f32.
 */
public enum ReduceOp {
    /** The sum; integers wrap around. */
    SUM,
    /** The sum times the reciprocal of the number of ranks; for integers the quotient, truncated towards zero. */
    AVERAGE,
    /** The product; integers wrap around. */
    PRODUCT,
    /** The least; NaN if there is one. */
    MIN,
    /** The greatest; NaN if there is one. */
    MAX
}
