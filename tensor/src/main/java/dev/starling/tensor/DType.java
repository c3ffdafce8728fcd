package dev.starling.tensor;

/**
 * Element types. Promotion follows NumPy's rules for arrays. The 16-bit brain float, which NumPy lacks, behaves like
 * {@link #F16} beside integers; {@link #BF16} and {@link #F16} promote to {@link #F32}.
 */
public enum DType {
    /** IEEE 754 binary32. */
    F32("f32", 4, Kind.FLOAT),
    /** IEEE 754 binary64. */
    F64("f64", 8, Kind.FLOAT),
    /** Brain float: the upper 16 bits of a binary32. */
    BF16("bf16", 2, Kind.FLOAT),
    /** IEEE 754 binary16. */
    F16("f16", 2, Kind.FLOAT),
    /** Signed 64-bit integer: the type of indices. */
    I64("i64", 8, Kind.INTEGER),
    /** Signed 32-bit integer. */
    I32("i32", 4, Kind.INTEGER),
    /** Signed 8-bit integer. */
    I8("i8", 1, Kind.INTEGER),
    /** Unsigned 8-bit integer. */
    U8("u8", 1, Kind.INTEGER),
    /** One byte, 0 or 1. */
    BOOL("bool", 1, Kind.BOOLEAN);

    private enum Kind { FLOAT, INTEGER, BOOLEAN }

    private final String label;
    private final int bytes;
    private final Kind kind;

    DType(String label, int bytes, Kind kind) {
        this.label = label;
        this.bytes = bytes;
        this.kind = kind;
    }

    /** Returns the size of an element in bytes. */
    public int bytes() {
        return bytes;
    }

    /** Returns whether this is a floating-point type; only these carry gradients. */
    public boolean isFloating() {
        return kind == Kind.FLOAT;
    }

    /** Returns whether this is a signed or unsigned integer type; {@link #BOOL} is not. */
    public boolean isInteger() {
        return kind == Kind.INTEGER;
    }

    /** Returns the type in which NumPy computes {@code a ∘ b} for arrays of these types. */
    public static DType promote(DType a, DType b) {
        if (a == b || b == BOOL) {
            return a;
        }
        if (a == BOOL) {
            return b;
        }
        if (a.isFloating() && b.isFloating()) {
            return a == F64 || b == F64 ? F64 : F32;
        }
        if (a.isInteger() && b.isInteger()) {
            return a == I64 || b == I64 ? I64 : I32;
        }
        DType floating = a.isFloating() ? a : b;
        DType integer = a.isFloating() ? b : a;
        return integer == I8 || integer == U8 ? floating : F64;
    }

    /**
     * Returns the type in which a function such as {@code sqrt} computes: this type if it is floating, {@link #F32} for
     * 8-bit types, {@link #F64} for the others.
     */
    public DType toFloating() {
        if (isFloating()) {
            return this;
        }
        return bytes == 1 ? F32 : F64;
    }

    /**
     * Returns the type in which a sum over elements of this type accumulates: {@link #I64} for integers and booleans,
     * else this type.
     */
    public DType toSum() {
        return isFloating() ? this : I64;
    }

    @Override
    public String toString() {
        return label;
    }
}
