package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;

/**
 * Kernels of {@link Contraction} operations: oneDNN's, for the types that it multiplies on this processor. Operands are
 * taken by their strides; one without a stride of 1 in its last two dimensions is copied.
 */
final class ContractionKernels {
    private ContractionKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(Contraction op, Tensor[] inputs, Spec output) {
        ElementType type = NativeTypes.of(inputs[0].dtype());
        if (type == null || !OneDnn.supports(type) || output.shape().count() == 0) {
            return null;
        }
        return switch (op) {
            case Contraction.MatMul _ -> inputs[0].size(-1) == 0 ? null : matmul(type, inputs[0], inputs[1], output);
            case Contraction.Linear l -> inputs[0].size(-1) == 0 ? null : linear(type, l, inputs, output);
        };
    }

    private static Tensor[] matmul(ElementType type, Tensor a, Tensor b, Spec output) {
        Tensor left = multipliable(a);
        Tensor right = multipliable(b);
        Tensor y = Tensor.allocate(output);
        int rank = output.shape().rank();
        int m = a.rank() - 2;
        int n = b.rank() - 2;
        Matmul request = new Matmul(type, type, a.size(m), b.size(n + 1), b.size(n))
                .left(left.address(), left.strides()[m], left.strides()[m + 1])
                .right(right.address(), right.strides()[n], right.strides()[n + 1])
                .result(y.address(), output.shape().dim(-1));
        for (int i = 0; i < rank - 2; i++) {
            request.batch(output.shape().dim(i), stride(left, i - (rank - 2) + m), stride(right, i - (rank - 2) + n),
                    y.strides()[i]);
        }
        request.run();
        return new Tensor[] {y};
    }

    private static Tensor[] linear(ElementType type, Contraction.Linear op, Tensor[] in, Spec output) {
        Tensor x = in[0].rank() == 1 ? in[0] : multipliable(in[0]);
        Tensor weight = multipliable(in[1]);
        Tensor y = Tensor.allocate(output);
        int last = x.rank() - 1;
        long outputs = weight.size(0);
        Matmul request = new Matmul(type, type, last == 0 ? 1 : x.size(last - 1), outputs, x.size(last))
                .left(x.address(), last == 0 ? x.size(0) : x.strides()[last - 1], x.strides()[last])
                .right(weight.address(), weight.strides()[1], weight.strides()[0])
                .result(y.address(), outputs)
                .bias(in.length == 2 ? 0 : CopyKernels.dense(in[2]).address());
        for (int i = 0; i < last - 1; i++) {
            request.batch(x.size(i), x.strides()[i], 0, y.strides()[i]);
        }
        request.run();
        if (op.epilogue() == Epilogue.RELU) {
            ElementwiseKernels.rectify(y);
        }
        return new Tensor[] {y};
    }

    /** The stride of a leading dimension, 0 where it is broadcast. */
    private static long stride(Tensor x, int axis) {
        return axis < 0 || x.size(axis) == 1 ? 0 : x.strides()[axis];
    }

    private static Tensor multipliable(Tensor x) {
        int row = x.rank() - 2;
        boolean fits = Matmul.accepts(x.size(row), x.size(row + 1), x.strides()[row], x.strides()[row + 1]);
        return fits ? x : CopyKernels.copy(x);
    }
}
