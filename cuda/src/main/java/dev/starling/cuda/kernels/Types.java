package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;

/** Element types in the kernels' sources. */
final class Types {
    private Types() { }

    /** Returns the name of the type in memory. */
    static String of(DType type) {
        return type == DType.BOOL ? "boolean" : type.toString();
    }

    /** Returns the name of the type to compute and accumulate in: f32 for 16-bit floats, i64 for integers. */
    static String wide(DType type) {
        return switch (type) {
            case F32, BF16, F16 -> "f32";
            case F64 -> "f64";
            case I64, I32, I8, U8, BOOL -> "i64";
        };
    }

    /** Returns the type in which floating-point numbers are added up. */
    static DType sums(DType type) {
        return type == DType.F64 ? DType.F64 : DType.F32;
    }
}
