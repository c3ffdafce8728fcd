package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Reduction;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Contraction} operations, for the types that oneDNN supports on this processor. Operands are
 * read by their strides; an operand without a stride of 1 in its last two dimensions is copied.
 */
final class ContractionKernels {
    private static final Axes FIRST = new Axes(1);

    private ContractionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Contraction op, Tensor[] in, Spec[] outputs) {
        ElementType type = ElementType.of(in[0].dtype());
        long summands = op instanceof Contraction.LinearWeightGradient ? in[0].size(0) : in[0].size(-1);
        if (type == null || !OneDnn.supports(type) || outputs[0].shape().count() == 0 || summands == 0) {
            return null;
        }
        return switch (op) {
            case Contraction.MatMul _ -> new Tensor[] {matmul(type, in[0], in[1], outputs[0])};
            case Contraction.Linear l -> linear(type, l, in, outputs[0]);
            case Contraction.LinearInputGradient g -> {
                Tensor y = matmul(type, in[0], in[1], outputs[0]);
                FormulaOp gradient = Objects.requireNonNull(g.epilogue().gradient());
                ElementwiseKernels.into(y, gradient, CopyKernels.dense(in[2]), y);
                yield new Tensor[] {y};
            }
            case Contraction.LinearWeightGradient _ -> new Tensor[] {
                matmul(type, transposed(in[0]), in[1], outputs[0]), sumOfRows(in[0], outputs[1])};
        };
    }

    private static Tensor transposed(Tensor x) {
        long[] strides = {x.strides()[1], x.strides()[0]};
        return x.storage().view(x.spec().with(Shape.of(x.size(1), x.size(0))), strides, x.offset());
    }

    private static Tensor sumOfRows(Tensor x, Spec output) {
        return output.device().backend().run(new Reduction.Sum(FIRST, false), new Tensor[] {x},
                new Spec[] {output})[0];
    }

    private static Tensor matmul(ElementType type, Tensor a, Tensor b, Spec output) {
        Tensor left = multipliable(a);
        Tensor right = multipliable(b);
        Tensor y = Storage.allocate(output);
        int rank = output.shape().rank();
        int m = a.rank() - 2;
        int n = b.rank() - 2;
        Matmul request = new Matmul(type, type, a.size(m), b.size(n + 1), b.size(n))
                .left(left.address(), left.strides()[m], left.strides()[m + 1])
                .right(right.address(), right.strides()[n], right.strides()[n + 1])
                .result(y.address(), output.shape().dim(-1));
        if (n == 0) {
            request.keepRight(right.storage(), right.offset());
        }
        for (int i = 0; i < rank - 2; i++) {
            request.batch(output.shape().dim(i), stride(left, i - (rank - 2) + m), stride(right, i - (rank - 2) + n),
                    y.strides()[i]);
        }
        request.run();
        return y;
    }

    private static Tensor[] linear(ElementType type, Contraction.Linear op, Tensor[] in, Spec output) {
        Tensor x = multipliable(in[0]);
        Tensor weight = multipliable(in[1]);
        Tensor sums = Storage.allocate(output);
        int last = x.rank() - 1;
        long outputs = weight.size(0);
        Matmul request = new Matmul(type, type, last == 0 ? 1 : x.size(last - 1), outputs, x.size(last))
                .left(x.address(), last == 0 ? x.size(0) : x.strides()[last - 1], x.strides()[last])
                .right(weight.address(), weight.strides()[1], weight.strides()[0])
                .keepRight(weight.storage(), weight.offset())
                .result(sums.address(), outputs)
                .bias(in.length == 2 ? 0 : CopyKernels.dense(in[2]).address());
        for (int i = 0; i < last - 1; i++) {
            request.batch(x.size(i), x.strides()[i], 0, sums.strides()[i]);
        }
        request.run();
        FormulaOp activation = op.epilogue().activation();
        if (activation == null) {
            return new Tensor[] {sums};
        }
        Tensor y = op.keeps() ? Storage.allocate(output) : sums;
        ElementwiseKernels.into(y, activation, sums);
        return op.keeps() ? new Tensor[] {y, sums} : new Tensor[] {y};
    }

    /** Returns the stride of a leading dimension, 0 if it is broadcast. */
    private static long stride(Tensor x, int axis) {
        return axis < 0 || x.size(axis) == 1 ? 0 : x.strides()[axis];
    }

    /** Returns a tensor whose last two dimensions (or only dimension) oneDNN can read: {@code x} or a copy. */
    private static Tensor multipliable(Tensor x) {
        int row = x.rank() - 2;
        if (row < 0) {
            return x.size(0) == 1 || x.strides()[0] >= 1 ? x : CopyKernels.copy(x);
        }
        boolean fits = Matmul.accepts(x.size(row), x.size(row + 1), x.strides()[row], x.strides()[row + 1]);
        return fits ? x : CopyKernels.copy(x);
    }
}
