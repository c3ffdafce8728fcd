package dev.starling.tensor.cpu.jit;

/** The instructions of loops. The vector generator supports those of which it does not say otherwise. */
enum Primitive {
    /**
     * The element of operand {@code immediate}, in the element type's {@link Lane}; 16-bit floats as their bits in I32.
     */
    LOAD,
    /** Writes {@code a} to operand {@code immediate}; 16-bit floats from their bits in I32. */
    STORE,
    /** The scalar parameter {@code immediate}. */
    PARAMETER,
    /** The bits {@code immediate}: of a double or float, or an integer. */
    CONSTANT,
    ADD, SUB, MUL,
    /** Division of floats. */
    DIV,
    /** {@code a * b + c} of floats, rounded once. */
    FMA,
    /** The smaller operand; NaN if either is NaN. */
    MIN,
    /** The larger operand; NaN if either is NaN. */
    MAX,
    NEG, ABS, SQRT, AND, OR, XOR, NOT,
    /** Shifts by {@code immediate}: left, right with sign, right with zeros. */
    SHL, SAR, SHR,
    EQ, NE, LT, LE,
    /** {@code a ? b : c}. */
    SELECT,
    /** The same bits as an integer or float of the same width. */
    REINTERPRET,
    /** The same value in another lane, converted as by Java's casts. */
    CONVERT,
    /** The function {@code immediate} of {@link Function}; only in loops over single elements. */
    CALL,
    /**
     * {@code b}, or, where {@code a} holds, which is rare, the function {@code immediate} of {@code c}. A loop over
     * vectors passes a whole vector to the loop over single elements if {@code a} holds for one of its elements.
     */
    RARE,
    /** What {@link #UPDATE} has made of the row's elements so far; before them, the bits {@code immediate}. */
    ACCUMULATOR,
    /**
     * Sets the accumulator {@code b} to {@code a}. After a row, the lanes are joined, half by half, and the result is
     * written to operand {@code immediate}. Only in machine code; no instruction behind it reads the accumulator.
     */
    UPDATE
}
