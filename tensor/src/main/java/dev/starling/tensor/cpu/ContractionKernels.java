package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;

/** Kernels of {@link Contraction} operations. */
final class ContractionKernels {
    private ContractionKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Contraction op, Tensor[] inputs, Spec output) {
        return null;
    }
}
