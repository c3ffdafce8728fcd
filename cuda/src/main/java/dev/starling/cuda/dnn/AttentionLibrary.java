package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that computes attention on a device, without a matrix of scores in memory. {@link #forward} and
 * {@link #backward} queue one operation each and return whether the library could compute it; if not, nothing was
 * queued. Safe for use by several threads.
 */
public interface AttentionLibrary {
    /** Returns whether the library supports a type. */
    boolean supports(DType type);

    /** Returns whether the library is expected to compute the results of a call. */
    boolean supportsForward(AttentionCall call);

    /** Returns whether the library is expected to compute the gradients of a call. */
    boolean supportsBackward(AttentionCall call);

    /** Returns whether {@link #backward} of a call reads the lengths. */
    boolean needsLengths(AttentionCall call);

    /** Sets {@code y} to the results and {@code logs [batch, heads, queries]} to the scores' log-sum-exp. */
    boolean forward(AttentionCall call, Operands at);

    /** Sets {@code dq}, {@code dk} and {@code dv} to the gradients, given the gradient {@code g} of {@code y}. */
    boolean backward(AttentionCall call, Operands at, Gradients to);

    /**
     * Addresses of operands.
     *
     * @param q the queries
     * @param k the keys
     * @param v the values
     * @param mask the mask that is added to the scores, or 0 if the call has none
     * @param y the results
     * @param logs the scores' log-sum-exp; in a gradient, +∞ for queries that attend to nothing
     */
    record Operands(long q, long k, long v, long mask, long y, long logs) { }

    /**
     * Addresses of gradients, and of memory for their computation.
     *
     * @param g gradients of the results
     * @param dq gradients of the queries
     * @param dk gradients of the keys
     * @param dv gradients of the values
     * @param sums f32 working memory, {@code batch·heads·queries} elements
     * @param slopes f32 working memory, {@code batch·heads·queries·width} elements
     * @param queryLengths i32, the number of queries of each sequence; 0 unless {@link #needsLengths}
     * @param keyLengths i32, the number of keys of each sequence; 0 unless {@link #needsLengths}
     */
    record Gradients(long g, long dq, long dk, long dv, long sums, long slopes, long queryLengths, long keyLengths) { }
}
