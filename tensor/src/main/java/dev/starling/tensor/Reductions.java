package dev.starling.tensor;

import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Softmax;
import dev.starling.tensor.op.Sorting;

/**
 * Operations that reduce or order dimensions. Without axes they reduce all dimensions; negative axes count from the
 * end.
 */
public sealed interface Reductions permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    private Axes axes(int... axes) {
        return Axes.of(self().shape(), axes);
    }

    /** Returns the sum along {@code axes}, which are removed. */
    default Tensor sum(int... axes) {
        return sum(false, axes);
    }

    /** Returns the sum along {@code axes}. */
    default Tensor sum(boolean keepDims, int... axes) {
        return Tensor.compute(new Reduction.Sum(axes(axes), keepDims), self());
    }

    /** Returns the mean along {@code axes}, which are removed. */
    default Tensor mean(int... axes) {
        return mean(false, axes);
    }

    /** Returns the mean along {@code axes}; floating even for integers. */
    default Tensor mean(boolean keepDims, int... axes) {
        return Tensor.compute(new Reduction.Mean(axes(axes), keepDims), self().to(self().dtype().toFloating()));
    }

    /**
     * Returns the variance along {@code axes}: the sum of squared deviations from the mean, divided by
     * {@code n - correction}. It is computed in f32 for 16-bit floats, and rounded once.
     */
    default Tensor variance(int correction, boolean keepDims, int... axes) {
        DType type = self().dtype();
        if (type.bytes() == 2) {
            return self().to(DType.F32).variance(correction, keepDims, axes).to(type);
        }
        Tensor near = self().sub(self().mean(true, axes));
        // The mean is rounded; the deviations' own mean is what it is off by.
        Tensor squares = near.sub(near.mean(true, axes)).square();
        long n = axes(axes).extent(self().shape());
        return squares.sum(keepDims, axes).mul(1.0 / Math.max(0, n - correction));
    }

    /** Returns the product along {@code axes}, which are removed. */
    default Tensor prod(int... axes) {
        return Tensor.compute(new Reduction.Prod(axes(axes), false), self());
    }

    /** Returns the maximum along {@code axes}, which are removed. */
    default Tensor max(int... axes) {
        return max(false, axes);
    }

    /** Returns the maximum along {@code axes}. */
    default Tensor max(boolean keepDims, int... axes) {
        return Tensor.compute(new Reduction.Max(axes(axes), keepDims), self());
    }

    /** Returns the minimum along {@code axes}, which are removed. */
    default Tensor min(int... axes) {
        return min(false, axes);
    }

    /** Returns the minimum along {@code axes}. */
    default Tensor min(boolean keepDims, int... axes) {
        return Tensor.compute(new Reduction.Min(axes(axes), keepDims), self());
    }

    /** Returns the i64 index of the first maximum along {@code axes}, which are removed. */
    default Tensor argmax(int... axes) {
        return Tensor.compute(new Reduction.ArgMax(axes(axes), false), self());
    }

    /** Returns the i64 index of the first minimum along {@code axes}, which are removed. */
    default Tensor argmin(int... axes) {
        return Tensor.compute(new Reduction.ArgMin(axes(axes), false), self());
    }

    /** Returns whether any element along {@code axes} is not 0. */
    default Tensor any(int... axes) {
        return Tensor.compute(new Reduction.Any(axes(axes), false), self());
    }

    /** Returns whether all elements along {@code axes} are not 0. */
    default Tensor all(int... axes) {
        return Tensor.compute(new Reduction.All(axes(axes), false), self());
    }

    /**
     * Returns ln Σeˣ along {@code axes}, computed without overflow; -∞ where all elements are -∞. It is floating even
     * for integers, and computed in f32 for 16-bit floats.
     */
    default Tensor logSumExp(boolean keepDims, int... axes) {
        DType type = self().dtype().toFloating();
        DType wide = type.bytes() == 2 ? DType.F32 : type;
        if (self().dtype() != wide) {
            return self().to(wide).logSumExp(keepDims, axes).to(type);
        }
        Tensor top = Recorder.with(Recorder.NONE, () -> {
            Tensor m = self().max(true, axes);
            return m.isFinite().where(m, m.zerosLike());
        });
        Tensor sum = self().sub(top).exp().sum(true, axes);
        // The gradient of a logarithm of 0 would be NaN.
        Tensor none = sum.eq(0);
        Tensor log = sum.maskedFill(none, 1).log().add(top).maskedFill(none, Double.NEGATIVE_INFINITY);
        return keepDims ? log : log.reshape(axes(axes).reduce(self().shape(), false));
    }

    /**
     * Returns the Euclidean norm along {@code axes}, which are removed. Its gradient is 0 where it is 0. It is floating
     * even for integers, and computed in f32 for 16-bit floats.
     */
    default Tensor norm(int... axes) {
        DType type = self().dtype().toFloating();
        Tensor sum = self().to(type.bytes() == 2 ? DType.F32 : type).square().sum(axes);
        Tensor some = sum.ne(0);
        return some.where(some.where(sum, sum.onesLike()).sqrt(), sum).to(type);
    }

    /** Returns the cumulative sum along {@code axis}. */
    default Tensor cumsum(int axis) {
        return Tensor.compute(new Scan.CumSum(self().shape().axis(axis), false), self());
    }

    /** Returns eˣ/Σeˣ along {@code axis}. */
    default Tensor softmax(int axis) {
        return Tensor.compute(new Softmax.Exponentials(self().shape().axis(axis)), self());
    }

    /** Returns x - ln Σeˣ along {@code axis}. */
    default Tensor logSoftmax(int axis) {
        return Tensor.compute(new Softmax.Logarithms(self().shape().axis(axis)), self());
    }

    /**
     * Sorted elements and their original positions.
     *
     * @param values sorted
     * @param indices i64, the positions of the values along the axis
     */
    record Ordered(Tensor values, Tensor indices) { }

    /** Returns the elements along {@code axis} in order; the sort is stable, and NaN counts as the largest value. */
    default Ordered sort(int axis, boolean descending) {
        Tensor[] r = Tensor.apply(new Sorting.Sort(self().shape().axis(axis), descending), self());
        return new Ordered(r[0], r[1]);
    }

    /**
     * Returns the {@code k} largest elements (largest first) or smallest elements (smallest first) along {@code axis}.
     */
    default Ordered topk(long k, int axis, boolean largest) {
        Tensor[] r = Tensor.apply(new Sorting.TopK(k, self().shape().axis(axis), largest), self());
        return new Ordered(r[0], r[1]);
    }

    /** Returns the sum over the dimensions that broadcasting from {@code shape} to this shape repeats. */
    default Tensor sumTo(Shape shape) {
        Shape from = self().shape();
        if (from.equals(shape)) {
            return self();
        }
        int lead = from.rank() - shape.rank();
        int mask = 0;
        for (int i = 0; i < from.rank(); i++) {
            if (i < lead || shape.dim(i - lead) == 1 && from.dim(i) != 1) {
                mask |= 1 << i;
            }
        }
        Tensor sum = mask == 0 ? self() : Tensor.compute(new Reduction.Sum(new Axes(mask), true), self());
        return sum.reshape(shape);
    }

    /**
     * Matrix product. A one-dimensional operand is a row on the left and a column on the right. Leading dimensions
     * broadcast.
     */
    default Tensor matmul(Tensor b) {
        Tensor a = self();
        if (a.dtype() != b.dtype()) {
            DType meet = DType.promote(a.dtype(), b.dtype());
            return a.to(meet).matmul(b.to(meet));
        }
        if (a.rank() == 1 && b.rank() == 1) {
            return a.unsqueeze(0).matmul(b.unsqueeze(1)).reshape();
        }
        if (a.rank() == 1) {
            return a.unsqueeze(0).matmul(b).squeeze(-2);
        }
        if (b.rank() == 1) {
            return a.matmul(b.unsqueeze(1)).squeeze(-1);
        }
        return Tensor.compute(new Contraction.MatMul(), a, b);
    }
}
