package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import java.util.Arrays;

/** Shows tests of other packages which operations the CPU backend does not leave to the reference kernels. */
public final class OwnKernels {
    private OwnKernels() {
    }

    /** Runs {@code op} on CPU tensors if the backend has a kernel of its own for them, and returns whether it has. */
    public static boolean run(Op op, Tensor... inputs) {
        Spec[] outputs = op.infer(Arrays.stream(inputs).map(Tensor::spec).toArray(Spec[]::new));
        return CpuBackend.runKernel(op, inputs, outputs) != null;
    }
}
