package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.DType;
import org.jspecify.annotations.Nullable;

/** The element types that oneDNN's kernels support. */
public enum ElementType {
    /** IEEE single precision. */
    F32(3, 4),
    /** bfloat16. */
    BF16(2, 2),
    /** IEEE half precision. */
    F16(1, 2),
    /** Signed 32-bit integer. */
    S32(4, 4),
    /** Signed byte. */
    S8(5, 1),
    /** Unsigned byte. */
    U8(6, 1);

    /** The value of {@code dnnl_data_type_t}. */
    final int code;
    private final int bytes;

    ElementType(int code, int bytes) {
        this.code = code;
        this.bytes = bytes;
    }

    /** Returns the element type for a tensor's type, or {@code null} if no kernel that tensors use supports it. */
    public static @Nullable ElementType of(DType type) {
        return switch (type) {
            case F32 -> F32;
            case BF16 -> BF16;
            case F16 -> F16;
            case F64, I64, I32, I8, U8, BOOL -> null;
        };
    }

    /** Returns the bytes of one element. */
    public int bytes() {
        return bytes;
    }
}
