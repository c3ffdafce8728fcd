package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
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
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Contraction} operations, for the types that oneDNN supports on this processor. Operands are
 * read by their strides; an operand without a stride of 1 in its last two dimensions is copied.
 */
final class ContractionKernels {
    /** By rank: the sum over all dimensions but the last. */
    private static final Reduction.Sum[] SUM_OF_ROWS = new Reduction.Sum[Shape.MAX_RANK + 1];

    static {
        Arrays.setAll(SUM_OF_ROWS, rank -> new Reduction.Sum(new Axes((1 << Math.max(rank - 1, 0)) - 1), false));
    }

    private ContractionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Contraction op, Tensor[] in, Spec[] outputs) {
        if (!isSupported(op, in, outputs[0].shape())) {
            return null;
        }
        return switch (op) {
            case Contraction.MatMul _ -> new Tensor[] {matmul(in[0], in[1], outputs[0])};
            case Contraction.Linear l -> linear(l, in, outputs[0]);
            case Contraction.LinearInputGradient g -> {
                Tensor y = matmul(in[0], in[1], outputs[0]);
                Tensor result = CopyKernels.dense(in[2]);
                try {
                    ElementwiseKernels.into(y, gradient(g), result, y);
                } finally {
                    Layout.release(result, in[2]);
                }
                yield new Tensor[] {y};
            }
            case Contraction.LinearWeightGradient _ -> new Tensor[] {
                weightGradient(in[0], in[1], outputs[0]), sumOfRows(in[0], outputs[1])};
        };
    }

    /**
     * Prepares what {@link #run} does; {@code null} if there is no kernel for these types and layouts, or if an operand
     * has to be copied.
     */
    static @Nullable Runnable prepare(Contraction op, Tensor[] in, Tensor[] y) {
        if (!isSupported(op, in, y[0].shape())) {
            return null;
        }
        boolean byRows = op instanceof Contraction.LinearWeightGradient;
        boolean reads = byRows ? isMatrix(in[0]) && isMatrix(in[1]) : isMultipliable(in[0]) && isMultipliable(in[1]);
        boolean dense = in.length < 3 || in[2].isContiguous();
        if (!reads || !dense) {
            return null;
        }
        Matmul request = new Matmul(type(in[0]), type(in[0]), 1, 1, 1);
        return switch (op) {
            case Contraction.MatMul _ -> product(request, in[0], in[1], y[0])::run;
            case Contraction.Linear l -> {
                Tensor sums = y[y.length - 1];
                layer(request, in[0], in[1], in.length == 2 ? null : in[2], sums);
                FormulaOp activation = l.epilogue().activation();
                yield activation == null ? request::run
                        : both(request::run, ElementwiseKernels.prepareInto(y[0], activation, sums));
            }
            case Contraction.LinearInputGradient g -> both(product(request, in[0], in[1], y[0])::run,
                    ElementwiseKernels.prepareInto(y[0], gradient(g), in[2], y[0]));
            case Contraction.LinearWeightGradient _ -> {
                Runnable sums = y[1].device().backend().prepare(SUM_OF_ROWS[in[0].rank()], new Tensor[] {in[0]},
                        new Tensor[] {y[1]});
                yield sums == null ? null : both(transposed(request, in[0], in[1], y[0])::run, sums);
            }
        };
    }

    private static Runnable both(Runnable first, Runnable second) {
        return () -> {
            first.run();
            second.run();
        };
    }

    private static boolean isSupported(Contraction op, Tensor[] in, Shape output) {
        ElementType type = ElementType.of(in[0].dtype());
        if (type == null || !OneDnn.supports(type) || output.count() == 0) {
            return false;
        }
        long summands = in[0].size(-1);
        if (op instanceof Contraction.LinearWeightGradient && summands > 0) {
            summands = in[0].count() / summands;
        }
        return summands > 0 && (summands % 2 == 0 || OneDnn.sumsOddNumbers(type));
    }

    private static ElementType type(Tensor x) {
        return Objects.requireNonNull(ElementType.of(x.dtype()));
    }

    private static FormulaOp gradient(Contraction.LinearInputGradient op) {
        return Objects.requireNonNull(op.epilogue().gradient());
    }

    private static Tensor sumOfRows(Tensor x, Spec output) {
        if (x.dtype() == DType.F32 && x.isContiguous()) {
            Tensor y = Storage.allocate(output);
            long columns = x.size(-1);
            ReductionKernels.sumRows(ReducedLayout.ofRows(x.count() / columns, columns), x.address(), y.address());
            return y;
        }
        return output.device().backend().run(SUM_OF_ROWS[x.rank()], new Tensor[] {x}, new Spec[] {output})[0];
    }

    private static Tensor matmul(Tensor a, Tensor b, Spec output) {
        Tensor left = multipliable(a);
        Tensor right = multipliable(b);
        Tensor y = Storage.allocate(output);
        try (Matmul request = Matmul.acquire(type(a))) {
            product(request, left, right, y).run();
        } finally {
            Layout.release(left, a);
            Layout.release(right, b);
        }
        return y;
    }

    /** Requests the product of two operands that can be multiplied as they are. */
    private static Matmul product(Matmul request, Tensor left, Tensor right, Tensor y) {
        int rank = y.rank();
        int m = left.rank() - 2;
        int n = right.rank() - 2;
        request.sizes(left.size(m), right.size(n + 1), right.size(n))
                .left(left.address(), left.stride(m), left.stride(m + 1))
                .right(right.address(), right.stride(n), right.stride(n + 1))
                .result(y.address(), y.size(-1));
        if (n == 0) {
            request.keepRight(right.storage(), right.offset());
        }
        for (int i = 0; i < rank - 2; i++) {
            request.batch(y.size(i), stride(left, i - (rank - 2) + m), stride(right, i - (rank - 2) + n),
                    y.stride(i));
        }
        return request;
    }

    private static Tensor weightGradient(Tensor g, Tensor x, Spec output) {
        Tensor left = isMatrix(g) ? g : CopyKernels.copy(g);
        Tensor right = isMatrix(x) ? x : CopyKernels.copy(x);
        Tensor y = Storage.allocate(output);
        try (Matmul request = Matmul.acquire(type(g))) {
            transposed(request, left, right, y).run();
        } finally {
            Layout.release(left, g);
            Layout.release(right, x);
        }
        return y;
    }

    /** Requests the product {@code gᵀ·x} of operands that are matrices once their leading dimensions are merged. */
    private static Matmul transposed(Matmul request, Tensor g, Tensor x, Tensor y) {
        int last = g.rank() - 1;
        return request.sizes(g.size(last), x.size(last), g.count() / g.size(last))
                .left(g.address(), g.stride(last), rowStride(g))
                .right(x.address(), rowStride(x), x.stride(last))
                .result(y.address(), x.size(last));
    }

    private static Tensor[] linear(Contraction.Linear op, Tensor[] in, Spec output) {
        Tensor x = multipliable(in[0]);
        Tensor weight = multipliable(in[1]);
        Tensor bias = in.length == 2 ? null : CopyKernels.dense(in[2]);
        Tensor sums = Storage.allocate(output);
        try (Matmul request = Matmul.acquire(type(x))) {
            layer(request, x, weight, bias, sums).run();
        } finally {
            Layout.release(x, in[0]);
            Layout.release(weight, in[1]);
            Layout.release(bias, in.length == 2 ? null : in[2]);
        }
        FormulaOp activation = op.epilogue().activation();
        if (activation == null) {
            return new Tensor[] {sums};
        }
        Tensor y = op.keeps() ? Storage.allocate(output) : sums;
        ElementwiseKernels.into(y, activation, sums);
        return op.keeps() ? new Tensor[] {y, sums} : new Tensor[] {y};
    }

    /** Requests the product of a linear layer, of operands that can be multiplied as they are. */
    private static Matmul layer(Matmul request, Tensor x, Tensor weight, @Nullable Tensor bias, Tensor sums) {
        int last = x.rank() - 1;
        long outputs = weight.size(0);
        request.sizes(last == 0 ? 1 : x.size(last - 1), outputs, x.size(last))
                .left(x.address(), last == 0 ? x.size(0) : x.stride(last - 1), x.stride(last))
                .right(weight.address(), weight.stride(1), weight.stride(0))
                .keepRight(weight.storage(), weight.offset())
                .result(sums.address(), outputs)
                .bias(bias == null ? 0 : bias.address());
        for (int i = 0; i < last - 1; i++) {
            request.batch(x.size(i), x.stride(i), 0, sums.stride(i));
        }
        return request;
    }

    /** Returns the stride of a leading dimension, 0 if it is broadcast. */
    private static long stride(Tensor x, int axis) {
        return axis < 0 || x.size(axis) == 1 ? 0 : x.stride(axis);
    }

    /** Returns a tensor whose last two dimensions (or only dimension) oneDNN can read: {@code x} or a copy. */
    private static Tensor multipliable(Tensor x) {
        return isMultipliable(x) ? x : CopyKernels.copy(x);
    }

    private static boolean isMultipliable(Tensor x) {
        int row = x.rank() - 2;
        return row < 0 ? x.size(0) == 1 || x.stride(0) >= 1
                : Matmul.accepts(x.size(row), x.size(row + 1), x.stride(row), x.stride(row + 1));
    }

    /** Returns whether oneDNN can read the operand, with its leading dimensions merged, as a matrix. */
    private static boolean isMatrix(Tensor x) {
        int last = x.rank() - 1;
        long rows = x.size(last) == 0 ? 0 : x.count() / x.size(last);
        long step = rowStride(x);
        return step >= 0 && Matmul.accepts(rows, x.size(last), step, x.stride(last));
    }

    /**
     * Returns the distance of consecutive rows of an operand whose leading dimensions are merged, or -1 if it is not
     * the same for all.
     */
    private static long rowStride(Tensor x) {
        long step = x.size(-1);
        long rows = 1;
        for (int i = x.rank() - 2; i >= 0; i--) {
            if (x.size(i) == 1) {
                continue;
            }
            step = rows == 1 ? x.stride(i) : step;
            if (x.stride(i) != step * rows) {
                return -1;
            }
            rows *= x.size(i);
        }
        return step;
    }
}
