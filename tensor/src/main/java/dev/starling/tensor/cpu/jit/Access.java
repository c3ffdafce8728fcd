package dev.starling.tensor.cpu.jit;

/** How a kernel finds an operand's next element along the columns. */
enum Access {
    /** The elements are adjacent. */
    CONTIGUOUS,
    /** One element serves all columns. */
    BROADCAST,
    /** Elements are a stride apart, which the frame contains. */
    STRIDED
}
