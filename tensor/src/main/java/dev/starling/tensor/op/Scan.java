package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Cumulative reductions along a dimension. */
public sealed interface Scan extends Op {
    /**
     * Cumulative sum, including the element itself; integers and booleans are summed in i64.
     *
     * @param axis the dimension, counted from the front
     * @param reverse whether to sum from the end
     */
    record CumSum(int axis, boolean reverse) implements Scan {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.axis(this, axis, in[0], in);
            return new Spec[] {in[0].with(in[0].dtype().toSum())};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new CumSum(axis, !reverse), b.grad())};
        }
    }
}
