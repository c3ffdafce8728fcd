package dev.starling.tensor.cpu.jit;

/** The instructions that both the scalar and the vector generator know: what processors offer. */
enum Primitive {
    /**
     * The element of operand {@code immediate}, as the element type's {@link Lane}; 16-bit floats as their bits in I32.
     */
    LOAD,
    /** Writes {@code a} to operand {@code immediate}; 16-bit floats from their bits in I32. */
    STORE,
    /** The scalar parameter {@code immediate}. */
    PARAMETER,
    /** The bits {@code immediate}: of a double or float, or an integer. */
    CONSTANT,
    ADD, SUB, MUL,
    /** Of floats only. */
    DIV,
    /** {@code a * b + c} of floats, rounded once. */
    FMA,
    /** The lesser; NaN if one is. */
    MIN,
    /** The greater; NaN if one is. */
    MAX,
    NEG, ABS, SQRT, AND, OR, XOR, NOT,
    /** Shifts by {@code immediate}: left, right with sign, right with zeros. */
    SHL, SAR, SHR,
    EQ, NE, LT, LE,
    /** {@code a ? b : c}. */
    SELECT,
    /** The same bits as an integer or float of the same width. */
    REINTERPRET,
    /** The same value in another lane, as Java's casts have it. */
    CONVERT,
    /** The function {@code immediate} of {@link Function}: only in loops over single elements. */
    CALL,
    /**
     * {@code b}, or where {@code a} holds, which is rare, the function {@code immediate} of {@code c}. A loop over
     * vectors leaves all elements of a vector to the loop over single elements if {@code a} holds for one.
     */
    RARE
}
