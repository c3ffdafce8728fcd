package dev.starling.tensor.cpu.onednn;

import java.util.Arrays;

/** The three computations of a convolution. */
public enum Pass {
    /** Computes the destination from source and weights. */
    FORWARD(Dnnl.ARG_SRC, Dnnl.ARG_WEIGHTS, Dnnl.ARG_DST, Dnnl.ARG_BIAS),
    /** Computes the gradient of the source. */
    DATA(Dnnl.ARG_DIFF_SRC, Dnnl.ARG_WEIGHTS, Dnnl.ARG_DIFF_DST, 0),
    /** Computes the gradients of weights and bias. */
    WEIGHTS(Dnnl.ARG_SRC, Dnnl.ARG_DIFF_WEIGHTS, Dnnl.ARG_DIFF_DST, Dnnl.ARG_DIFF_BIAS);

    private final int[] arguments;

    Pass(int... arguments) {
        this.arguments = arguments;
    }

    int[] arguments(boolean bias) {
        return bias ? arguments : Arrays.copyOf(arguments, 3);
    }
}
