package dev.starling.tensor.cpu.onednn;

/** What is applied to a result before it is stored. */
public enum Activation {
    /** The identity. */
    NONE(0),
    /** {@code max(x, 0)}. */
    RELU(32),
    /** {@code x Φ(x)} with the error function. */
    GELU(49),
    /** The approximation of GELU with {@code tanh}. */
    GELU_TANH(43);

    /** The value of {@code dnnl_alg_kind_t}. */
    final int code;

    Activation(int code) {
        this.code = code;
    }
}
