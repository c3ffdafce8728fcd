package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;

/** Kernels of {@link Elementwise} operations. */
final class ElementwiseKernels {
    private ElementwiseKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Elementwise op, Tensor[] inputs, Spec output) {
        return null;
    }
}
