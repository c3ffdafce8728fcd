package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Softmax;

/** Kernels of {@link Softmax} and {@link CrossEntropy} operations. */
final class SoftmaxKernels {
    private SoftmaxKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Softmax op, Tensor[] inputs, Spec output) {
        return null;
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(CrossEntropy op, Tensor[] inputs, Spec[] outputs) {
        return null;
    }
}
