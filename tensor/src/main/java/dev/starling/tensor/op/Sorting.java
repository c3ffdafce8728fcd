package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Orders elements along a dimension. Outputs {@code (values, indices i64)}. NaN counts as the largest value; the sort
 * is stable.
 */
public sealed interface Sorting extends Op {
    /** Returns the dimension, counted from the front. */
    int axis();

    @Override
    default Tensor[] vjp(Backward b) {
        Tensor zeros = b.in(0).zerosLike();
        return new Tensor[] {Tensor.compute(new Selection.ScatterAdd(axis()), zeros, b.out(1), b.grad())};
    }

    /**
     * All elements, sorted.
     *
     * @param axis the dimension, counted from the front
     * @param descending whether the largest comes first
     */
    record Sort(int axis, boolean descending) implements Sorting {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.axis(this, axis, in[0], in);
            Check.counted(this, "a row", in[0].shape().dim(axis), in);
            return new Spec[] {in[0], in[0].with(DType.I64)};
        }
    }

    /**
     * The k largest elements, largest first, or the k smallest, smallest first.
     *
     * @param k number of elements
     * @param axis the dimension, counted from the front
     * @param largest whether to return the largest elements
     */
    record TopK(long k, int axis, boolean largest) implements Sorting {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.axis(this, axis, in[0], in);
            Check.counted(this, "a row", in[0].shape().dim(axis), in);
            if (k < 0 || k > in[0].shape().dim(axis)) {
                throw Check.argument(this, "k = " + k + " must be between 0 and the size of dimension " + axis,
                        "use a smaller k", in);
            }
            Spec values = in[0].with(in[0].shape().with(axis, k));
            return new Spec[] {values, values.with(DType.I64)};
        }
    }
}
