package dev.starling.cuda.config;

/** What happens to the sums of a matrix product, in some cases with a matrix beside the result. */
public enum ProductEpilogue {
    /** The sums are the result. */
    NOTHING,
    /** ReLU. */
    RELU,
    /** GELU by its tanh approximation. */
    GELU,
    /** GELU by its tanh approximation; its input is stored in the side matrix, which has the result's layout. */
    GELU_KEPT,
    /** Zero where the bit in the side matrix is 0; columns of that matrix begin at multiples of 128 bits. */
    RELU_GRADIENT,
    /** Multiplication by GELU's slope at the elements of the side matrix, which has the result's layout. */
    GELU_GRADIENT,
    /** The sums are the result; beside it, each row of the left operand is summed. */
    COLUMN_SUMS
}
