package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Pooling;

/** Kernels of {@link Pooling} operations. */
final class PoolingKernels {
    private PoolingKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Pooling op, Tensor[] inputs, Spec[] outputs) {
        return null;
    }
}
