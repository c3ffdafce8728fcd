package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * Attention or its gradient. Rows of all operands are contiguous.
 *
 * @param type of all operands except the log-sum-exp, which is f32
 * @param batch number of sequences
 * @param heads number of heads of each sequence
 * @param queries number of queries of a head
 * @param keys number of keys of a head
 * @param width length of queries and keys
 * @param depth length of values
 * @param scale factor of the scores
 * @param causal whether query {@code i} attends to keys {@code 0..i} only
 * @param q strides of the queries
 * @param k strides of the keys
 * @param v strides of the values
 * @param y strides of the results
 * @param g strides of the results' gradients, or {@code null} without them; gradients of q, k, v are row-major
 * @param mask strides of the mask that is added to the scores, of the operands' type, or {@code null} without one; a
 *     batch or head stride of 0 means that all sequences or heads share it
 */
public record AttentionCall(DType type, long batch, long heads, long queries, long keys, long width, long depth,
        float scale, boolean causal, Rows q, Rows k, Rows v, Rows y, Rows g, Rows mask) {
    /**
     * Strides in elements.
     *
     * @param batch distance of neighbouring sequences
     * @param head distance of neighbouring heads
     * @param row distance of neighbouring rows
     */
    public record Rows(long batch, long head, long row) { }
}
