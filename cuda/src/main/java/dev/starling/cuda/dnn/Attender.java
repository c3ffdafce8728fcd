package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that computes attention on a device, without a matrix of scores in memory. Each method queues one operation
 * and returns whether it could; where not, nothing was queued. Safe for use by several threads.
 */
public interface Attender {
    /** Tells whether it attends in a type. */
    boolean takes(DType type);

    /** Sets {@code y} to the results and {@code logs [batch, heads, queries]} to the scores' log-sum-exp. */
    boolean forward(AttentionCall call, long q, long k, long v, long y, long logs);

    /**
     * Sets {@code dq}, {@code dk} and {@code dv} to the gradients from {@code g}, that of y.
     *
     * @param sums f32 memory to work in, {@code batch·heads·queries} elements
     * @param slopes f32 memory to work in, {@code batch·heads·queries·width} elements
     */
    boolean backward(AttentionCall call, long q, long k, long v, long y, long logs, long g, long dq, long dk, long dv,
            long sums, long slopes);
}
