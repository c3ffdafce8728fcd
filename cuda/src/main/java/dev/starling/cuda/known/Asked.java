package dev.starling.cuda.known;

import dev.starling.tensor.DType;

/** What a library is asked for, as far as known faults depend on it. */
public sealed interface Asked {
    /**
     * Attention, or its gradient.
     *
     * @param backward whether the gradient is computed
     * @param sameBits whether gradients must have the same bits every time
     * @param causal whether query {@code i} attends to keys {@code 0..i} only
     * @param masked whether a mask is added to the scores
     * @param batch number of sequences
     * @param heads of each sequence
     * @param queries of each head
     * @param keys of each head
     * @param width of queries and keys
     * @param depth of values
     * @param capability compute capability of the GPU, as 10·major + minor
     */
    record Attention(boolean backward, boolean sameBits, boolean causal, boolean masked, long batch, long heads,
            long queries, long keys, long width, long depth, int capability) implements Asked { }

    /**
     * A product of matrices.
     *
     * @param type of the operands
     * @param span elements from the first to the last of the operand that reaches farther, those between rows included
     */
    record Product(DType type, long span) implements Asked { }

    /**
     * A recurrent layer.
     *
     * @param type of the operands
     */
    record Recurrence(DType type) implements Asked { }
}
