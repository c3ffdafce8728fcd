package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that computes attention on a device, without a matrix of scores in memory. Each method queues one operation
 * and returns whether it could; where not, nothing was queued. Safe for use by several threads.
 */
public interface Attender {
    /** Tells whether it attends in a type. */
    boolean takes(DType type);

    /** Tells whether it computes the results of a call, as far as is known before it is asked. */
    boolean attends(AttentionCall call);

    /** Tells whether it computes the gradients of a call, as far as is known before it is asked. */
    boolean derives(AttentionCall call);

    /** Tells whether {@link #backward} of a call reads the lengths. */
    boolean wantsLengths(AttentionCall call);

    /** Sets {@code y} to the results and {@code logs [batch, heads, queries]} to the scores' log-sum-exp. */
    boolean forward(AttentionCall call, Operands at);

    /** Sets {@code dq}, {@code dk} and {@code dv} to the gradients from {@code g}, that of y. */
    boolean backward(AttentionCall call, Operands at, Gradients to);

    /**
     * Addresses of operands.
     *
     * @param q the queries
     * @param k the keys
     * @param v the values
     * @param mask what is added to the scores, or 0 where the call has none
     * @param y the results
     * @param logs the scores' log-sum-exp; for gradients +∞ where a query attends to nothing
     */
    record Operands(long q, long k, long v, long mask, long y, long logs) { }

    /**
     * Addresses of gradients and of memory that their computation needs.
     *
     * @param g the results' gradients
     * @param dq the queries' gradients
     * @param dk the keys' gradients
     * @param dv the values' gradients
     * @param sums f32 memory to work in, {@code batch·heads·queries} elements
     * @param slopes f32 memory to work in, {@code batch·heads·queries·width} elements
     * @param queryLengths i32, the number of queries for each sequence, where {@link #wantsLengths} says so, else 0
     * @param keyLengths i32, the number of keys for each sequence, likewise
     */
    record Gradients(long g, long dq, long dk, long dv, long sums, long slopes, long queryLengths, long keyLengths) { }
}
