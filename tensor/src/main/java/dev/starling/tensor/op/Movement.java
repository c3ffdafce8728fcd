package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Operations that copy elements elsewhere without changing them. */
public sealed interface Movement extends Op {
    /** A row-major copy. */
    record Copy() implements Movement {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            return new Spec[] {in[0]};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad()};
        }
    }

    /**
     * Joins operands of one type along a dimension in which alone their sizes may differ.
     *
     * @param axis the dimension, counted from the front
     */
    record Concat(int axis) implements Movement {
        @Override
        public Spec[] infer(Spec... in) {
            Check.argument(in.length > 0, this, "needs at least one operand", "give some");
            Check.axis(this, axis, in[0], in);
            Check.sameType(this, in);
            long size = 0;
            for (Spec s : in) {
                Check.shape(s.shape().rank() == in[0].shape().rank()
                        && s.shape().with(axis, 1).equals(in[0].shape().with(axis, 1)), this,
                        "sizes must agree but in dimension " + axis, "reshape or slice", in);
                size += s.shape().dim(axis);
            }
            Check.shape(size >= 0, this, "sizes must not add up to more than 2^63", "join fewer", in);
            return new Spec[] {in[0].with(in[0].shape().with(axis, size))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor[] result = new Tensor[b.inputs().length];
            long from = 0;
            for (int i = 0; i < result.length; i++) {
                long size = b.in(i).size(axis);
                result[i] = b.needs(i) ? b.grad().narrow(axis, from, size) : null;
                from += size;
            }
            return result;
        }
    }

    /**
     * A tensor of {@code value}s into which the operand is written along a grid as of {@link View.Slice}: padding, and
     * the gradient of a slice.
     *
     * @param shape sizes of the result
     * @param starts where the operand's first element goes, for each dimension
     * @param steps distance between neighbours; may be negative
     * @param value what the rest is filled with
     */
    record Place(Shape shape, long[] starts, long[] steps, double value) implements Movement {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Shape inner = in[0].shape();
            Check.shape(inner.rank() == shape.rank(), this, () -> "must have the rank of " + shape, "reshape it", in);
            View.Slice.check(this, shape, starts, steps, inner.dims(), "give a larger shape", in);
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new View.Slice(starts, steps, b.in(0).shape().dims()), b.grad())};
        }
    }
}
