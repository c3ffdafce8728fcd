package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;

/** The types in which kernels compute. Narrower element types are converted when they are loaded and stored. */
enum Lane {
    F32(4), F64(8), I32(4), I64(8),
    /** One bit per element: a mask, or 0 and 1 in an int. */
    BOOL(4);

    final int bytes;

    Lane(int bytes) {
        this.bytes = bytes;
    }

    boolean isFloating() {
        return this == F32 || this == F64;
    }

    /** Returns the lane in which values of an element type are computed. */
    static Lane of(DType type) {
        return switch (type) {
            case F32, BF16, F16 -> F32;
            case F64 -> F64;
            case I32, I8, U8 -> I32;
            case I64 -> I64;
            case BOOL -> BOOL;
        };
    }
}
