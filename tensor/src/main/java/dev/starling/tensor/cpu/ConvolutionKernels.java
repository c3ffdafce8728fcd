package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;

/** Kernels of {@link Convolution} operations. */
final class ConvolutionKernels {
    private ConvolutionKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Convolution op, Tensor[] inputs, Spec[] outputs) {
        return null;
    }
}
