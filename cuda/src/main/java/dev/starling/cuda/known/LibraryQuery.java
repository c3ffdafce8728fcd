package dev.starling.cuda.known;

import dev.starling.tensor.DType;

/** A request to a library, described as far as known faults depend on it. */
public sealed interface LibraryQuery {
    /**
     * Attention, or its gradient.
     *
     * @param backward whether the gradient is computed
     * @param deterministic whether gradients must have the same bits every time
     * @param causal whether query {@code i} attends to keys {@code 0..i} only
     * @param masked whether a mask is added to the scores
     * @param batch number of sequences
     * @param heads number of heads of each sequence
     * @param queries number of queries of each head
     * @param keys number of keys of each head
     * @param width length of queries and keys
     * @param depth length of values
     * @param capability compute capability of the GPU, as 10·major + minor
     */
    record Attention(boolean backward, boolean deterministic, boolean causal, boolean masked, long batch, long heads,
            long queries, long keys, long width, long depth, int capability) implements LibraryQuery { }

    /**
     * A matrix product.
     *
     * @param type of the operands
     * @param span elements from the first to the last of the operand that spans more memory, gaps included
     * @param interleaved whether an operand's matrices lie between the rows or columns of each other
     * @param capability compute capability of the GPU, as 10·major + minor
     */
    record Product(DType type, long span, boolean interleaved, int capability) implements LibraryQuery { }

    /**
     * A convolution, or one of its gradients.
     *
     * @param depthwise whether every channel of the images is a group of its own
     */
    record Convolution(boolean depthwise) implements LibraryQuery { }

    /**
     * A recurrent layer.
     *
     * @param type of the operands
     */
    record Recurrence(DType type) implements LibraryQuery { }
}
