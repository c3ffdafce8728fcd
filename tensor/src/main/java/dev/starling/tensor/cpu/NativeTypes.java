package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.onednn.ElementType;

/** Maps floating-point types to oneDNN's element types. */
final class NativeTypes {
    private NativeTypes() {
    }

    /** Returns oneDNN's element type for a type, or {@code null} if its kernels do not support it. */
    static ElementType of(DType type) {
        return switch (type) {
            case F32 -> ElementType.F32;
            case BF16 -> ElementType.BF16;
            case F16 -> ElementType.F16;
            case F64, I64, I32, I8, U8, BOOL -> null;
        };
    }
}
