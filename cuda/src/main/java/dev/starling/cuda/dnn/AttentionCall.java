package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * Attention or its gradient. Rows of all operands are runs in memory.
 *
 * @param type of all operands but the log-sum-exp, which is f32
 * @param batch how many sequences
 * @param heads of each sequence
 * @param queries of a head
 * @param keys of a head
 * @param width of queries and keys
 * @param depth of values
 * @param scale of the scores
 * @param causal whether query {@code i} attends to keys {@code 0..i} only
 * @param q how the queries lie
 * @param k how the keys lie
 * @param v how the values lie
 * @param y how the results lie
 * @param g how the results' gradients lie, or {@code null} where none are given; those of q, k, v are row-major
 * @param mask how what is added to the scores lies, of the operands' type, {@code null} for nothing; a batch distance
 *     or a head distance of 0 says that all sequences or heads have the same
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
