package dev.starling.tensor.cpu.jit;

/** How a kernel finds an operand's next element along the columns. */
enum Access {
    /** It follows the one before. */
    CONTIGUOUS,
    /** It is the same for all columns. */
    BROADCAST,
    /** It is a stride away, which the frame tells. */
    STRIDED
}
