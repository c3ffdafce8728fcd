package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Operations that copy elements without changing them. */
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
     * Joins operands of the same type along a dimension, the only one in which their sizes may differ.
     *
     * @param axis the dimension, counted from the front
     * @param shares whether the result may be a view where the operands lie in memory like its parts: for callers that
     *     change neither operands nor result in place
     */
    record Concat(int axis, boolean shares) implements Movement {
        /** Joins operands in memory of its own. */
        public Concat(int axis) {
            this(axis, false);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.argument(in.length > 0, this, "needs at least one operand", "give one or more");
            Check.axis(this, axis, in[0], in);
            Check.sameType(this, in);
            long size = 0;
            for (Spec s : in) {
                if (s.shape().rank() != in[0].shape().rank()
                        || !s.shape().with(axis, 1).equals(in[0].shape().with(axis, 1))) {
                    throw Check.shape(this, "sizes must agree except in dimension " + axis, "reshape or slice", in);
                }
                size += s.shape().dim(axis);
                Check.shape(size >= 0, this, "the sum of sizes must be < 2^63", "join fewer tensors", in);
            }
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
     * A tensor of {@code value}s with the operand written at a grid like that of {@link View.Slice}: padding, and the
     * gradient of a slice.
     *
     * @param shape sizes of the result
     * @param starts position of the operand's first element in each dimension
     * @param steps distance between neighbours; may be negative
     * @param value of all other elements
     */
    record Place(Shape shape, long[] starts, long[] steps, double value) implements Movement {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Shape inner = in[0].shape();
            if (inner.rank() != shape.rank()) {
                throw Check.shape(this, "must have the rank of " + shape, "reshape it", in);
            }
            View.Slice.check(this, shape, starts, steps, inner.dims(), "give a larger shape", in);
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new View.Slice(starts, steps, b.in(0).shape().dims()), b.grad())};
        }
    }
}
