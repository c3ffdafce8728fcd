package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Selection;

/** Kernels of {@link Selection} operations. */
final class SelectionKernels {
    private SelectionKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Selection op, Tensor[] inputs, Spec output) {
        return null;
    }
}
