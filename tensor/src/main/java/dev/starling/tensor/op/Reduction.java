package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Reduces dimensions of one operand. */
public sealed interface Reduction extends Op {
    /** Returns the dimensions to reduce. */
    Axes axes();

    /** Returns whether reduced dimensions are kept, with size 1. */
    boolean keepDims();

    /** Returns the result's type for operands of type {@code dtype}. */
    default DType result(DType dtype) {
        return switch (this) {
            case Sum _, Prod _ -> dtype.toSum();
            case Mean _, Max _, Min _ -> dtype;
            case Any _, All _ -> DType.BOOL;
            case ArgMax _, ArgMin _ -> DType.I64;
        };
    }

    /** Returns whether the reduction of no elements has a result (0 for a sum) rather than being an error. */
    default boolean hasIdentity() {
        return switch (this) {
            case Sum _, Mean _, Prod _, Any _, All _ -> true;
            case Max _, Min _, ArgMax _, ArgMin _ -> false;
        };
    }

    @Override
    default boolean differentiable() {
        return switch (this) {
            case Sum _, Mean _, Prod _, Max _, Min _ -> true;
            case Any _, All _, ArgMax _, ArgMin _ -> false;
        };
    }

    @Override
    default Spec[] infer(Spec... in) {
        Check.operands(this, in, 1, 1);
        Shape shape = in[0].shape();
        if (axes().mask() >>> shape.rank() != 0) {
            throw Check.argument(this, "axes " + axes() + " must be below the rank", "use Axes.of", in);
        }
        if (!hasIdentity() && axes().extent(shape) == 0
                && (shape.count() > 0 || axes().reduce(shape, false).count() > 0)) {
            throw Check.shape(this, "needs at least one element along axes " + axes(), "give a non-empty tensor", in);
        }
        return new Spec[] {new Spec(result(in[0].dtype()), axes().reduce(shape, keepDims()), in[0].device())};
    }

    /** Returns {@code reduced}, a result or gradient of this operation, in a shape that broadcasts to the operand. */
    default Tensor unreduced(Tensor reduced, Tensor operand) {
        return keepDims() ? reduced : reduced.reshape(axes().reduce(operand.shape(), true));
    }

    /**
     * Sum; integers and booleans are summed in i64; floats narrower than 32 bits accumulate in f32.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Sum(Axes axes, boolean keepDims) implements Reduction {
        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {unreduced(b.grad(), b.in(0)).expand(b.in(0).shape())};
        }
    }

    /**
     * Arithmetic mean; floating only; NaN if there are no elements.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Mean(Axes axes, boolean keepDims) implements Reduction {
        @Override
        public Spec[] infer(Spec... in) {
            Check.floating(this, in);
            return Reduction.super.infer(in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor g = b.grad().mul(1.0 / axes.extent(b.in(0).shape()));
            return new Tensor[] {unreduced(g, b.in(0)).expand(b.in(0).shape())};
        }
    }

    /**
     * Product; its gradient is correct where elements are 0, its second derivative only where none is.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Prod(Axes axes, boolean keepDims) implements Reduction {
        @Override
        public Tensor[] vjp(Backward b) {
            Tensor x = b.in(0);
            Tensor zero = x.eq(0);
            Tensor filled = Where.select(zero, x.onesLike(), x);
            Tensor product = Tensor.compute(new Prod(axes, true), filled);
            Tensor zeros = Tensor.compute(new Sum(axes, true), zero.to(x.dtype()));
            Tensor others = Where.select(zero, product.mul(zeros.eq(1).to(x.dtype())),
                    product.mul(zeros.eq(0).to(x.dtype())).div(filled));
            return new Tensor[] {unreduced(b.grad(), x).mul(others)};
        }
    }

    /**
     * Maximum; NaN if one element is NaN; equal elements share the gradient evenly.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Max(Axes axes, boolean keepDims) implements Reduction {
        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {toTies(this, b)};
        }
    }

    /**
     * Minimum; NaN if one element is NaN; equal elements share the gradient evenly.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Min(Axes axes, boolean keepDims) implements Reduction {
        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {toTies(this, b)};
        }
    }

    private static Tensor toTies(Reduction op, Backward b) {
        Tensor x = b.in(0);
        Tensor ties = x.eq(op.unreduced(b.out(0), x)).to(x.dtype());
        // In f16 the number of ties could be infinite.
        Tensor wide = x.dtype().bytes() == 2 ? ties.to(DType.F32) : ties;
        Tensor share = op.unreduced(b.grad(), x).div(Tensor.compute(new Sum(op.axes(), true), wide)).to(x.dtype());
        return ties.mul(share);
    }

    /**
     * Whether any element is not 0; the result is bool.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record Any(Axes axes, boolean keepDims) implements Reduction { }

    /**
     * Whether all elements are not 0; the result is bool.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record All(Axes axes, boolean keepDims) implements Reduction { }

    /**
     * Index of the maximum, the first of equal elements, in row-major order over the reduced dimensions; the first NaN
     * wins; the result is i64.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record ArgMax(Axes axes, boolean keepDims) implements Reduction { }

    /**
     * Index of the minimum, the first of equal elements, in row-major order over the reduced dimensions; the first NaN
     * wins; the result is i64.
     *
     * @param axes dimensions to reduce
     * @param keepDims whether they are kept, with size 1
     */
    record ArgMin(Axes axes, boolean keepDims) implements Reduction { }
}
