package dev.starling.tensor.cpu;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;

/** Kernels of {@link Update} operations. */
final class UpdateKernels {
    private UpdateKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Update op, Tensor[] inputs) {
        return null;
    }
}
