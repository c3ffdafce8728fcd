package dev.starling.tensor.cpu.onednn;

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

    /** Returns the bytes of one element. */
    public int bytes() {
        return bytes;
    }
}
