package dev.starling.cuda.kernels;

import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Reduction;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * {@link Contraction} operations by one way to multiply matrices. If that cannot fuse something into a product (an
 * activation, a gradient), a kernel after the product computes it.
 */
public final class ContractionKernels implements Kernels<Contraction> {
    private static final Reduction OVER_ROWS = new Reduction.Sum(new Axes(1), false);

    private final Launcher launcher;
    private final ReductionKernels sums;
    private final Products products;

    /** Makes the family's kernels for a device. */
    public ContractionKernels(Launcher launcher, ReductionKernels sums, Products products) {
        this.launcher = launcher;
        this.sums = sums;
        this.products = products;
    }

    @Override
    public Answer compute(Contraction op, Tensor[] in, Tensor[] out) {
        Tensor y = out[0];
        return switch (op) {
            case Contraction.MatMul _ -> y.count() == 0 ? Answer.HANDLED
                    : products.multiply(Multiplication.of(in[0], in[1], y));
            case Contraction.Linear(Epilogue epilogue, boolean keeps) -> layer(epilogue, in, y, keeps ? out[1] : null);
            case Contraction.LinearInputGradient(Epilogue epilogue) -> inputGradient(epilogue, rows(in[0]), in[1],
                    rows(in[2]), rows(y));
            case Contraction.LinearWeightGradient _ -> weightGradient(rows(in[0]), rows(in[1]), y, out[1]);
        };
    }

    /** Computes a layer. If {@code kept} is not {@code null}, it receives the input of GELU. */
    private Answer layer(Epilogue epilogue, Tensor[] in, Tensor y, @Nullable Tensor kept) {
        Multiplication product = Multiplication.ofLayer(in[0], in[1], in.length == 3 ? in[2] : null, y);
        if (y.count() == 0) {
            return Answer.HANDLED;
        }
        Tensor before = kept == null ? y : kept;
        return switch (epilogue) {
            case NONE -> products.multiply(product);
            case RELU -> fused(product, ProductEpilogue.RELU, null, y, () -> apply(epilogue.activation(), y, y));
            case GELU -> fused(product, kept == null ? ProductEpilogue.GELU : ProductEpilogue.GELU_KEPT, kept, before,
                    () -> apply(epilogue.activation(), y, before));
        };
    }

    private Answer inputGradient(Epilogue epilogue, Tensor g, Tensor weight, Tensor kept, Tensor y) {
        return fused(Multiplication.of(g, weight, y), epilogue == Epilogue.RELU ? ProductEpilogue.RELU_GRADIENT
                : ProductEpilogue.GELU_GRADIENT, kept, y, () -> apply(epilogue.gradient(), y, kept, y));
    }

    /** Returns {@code x} with its leading dimensions merged, copied if its strides do not allow it. */
    private Tensor rows(Tensor x) {
        if (x.rank() == 2) {
            return x;
        }
        Shape matrix = Shape.of(x.shape().slice(0, x.rank() - 1).count(), x.size(-1));
        Tensor dense = launcher.dense(x);
        return Relabelled.view(dense, matrix, matrix.sharedStrides(), dense.offset());
    }

    private Answer weightGradient(Tensor g, Tensor x, Tensor w, Tensor bias) {
        Tensor transposed = Relabelled.view(g, Shape.of(g.size(1), g.size(0)),
                new long[] {g.stride(1), g.stride(0)}, g.offset());
        Supplier<Answer> sum = () -> sums.compute(OVER_ROWS, g, bias);
        return w.count() == 0 ? sum.get()
                : fused(Multiplication.of(transposed, x, w), ProductEpilogue.COLUMN_SUMS, bias, w, sum);
    }

    /**
     * Multiplies with an epilogue, or else without one and with a kernel afterwards.
     *
     * @param before the result of the product without the epilogue
     * @param afterwards queues that kernel
     */
    private Answer fused(Multiplication product, ProductEpilogue after, @Nullable Tensor side, Tensor before,
            Supplier<Answer> afterwards) {
        if (product.y().count() == 0 || products.multiply(product.with(after, side)).isHandled()) {
            return Answer.HANDLED;
        }
        Answer answer = products.multiply(product.into(before));
        return answer.isHandled() ? afterwards.get() : answer;
    }

    private Answer apply(@Nullable FormulaOp op, Tensor y, Tensor... operands) {
        FormulaOp formula = Objects.requireNonNull(op); // Every epilogue but NONE has both of its functions.
        launcher.elementwise().apply(ElementwiseExpressions.of(formula.formula(), y.dtype()), formula.parameters(), y,
                operands);
        return Answer.HANDLED;
    }
}
