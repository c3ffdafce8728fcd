package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Random;

/** Kernels of {@link Fill} and {@link Random} operations. */
final class FillKernels {
    private FillKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Fill op, Spec output) {
        return null;
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Random op, Tensor[] inputs, Spec output) {
        return null;
    }
}
