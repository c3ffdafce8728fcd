package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Reads and writes at i64 or i32 indices. Negative indices count from the end; an index out of range is an error.
 */
public sealed interface Selection extends Op {
    /**
     * Operands {@code (x, index)}: the slices of {@code x} along {@code axis} at {@code index}, of any shape.
     * {@code [.., n, ..]} and {@code [i..]} give {@code [.., i.., ..]}. Embedding is {@code Take(0)}.
     *
     * @param axis the dimension, counted from the front
     */
    record Take(int axis) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.index(this, in[1], in);
            Check.axis(this, axis, in[0], in);
            Shape x = in[0].shape();
            return new Spec[] {in[0].with(x.slice(0, axis).concat(in[1].shape()).concat(x.slice(axis + 1, x.rank())))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new TakeGradient(axis, b.in(0).size(axis)), b.grad(), b.in(1)), null};
        }
    }

    /**
     * Operands {@code (g, index)}: zeros to which the slices of {@code g} are added at {@code index}; the gradient of
     * {@link Take}. Slices with equal indices are added in the order of the index.
     *
     * @param axis the dimension, counted from the front
     * @param size of that dimension in the result
     */
    record TakeGradient(int axis, long size) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.index(this, in[1], in);
            Shape g = in[0].shape();
            int after = axis + in[1].shape().rank();
            if (size < 0 || axis < 0) {
                throw Check.argument(this, "axis and size must be >= 0, got " + axis + " and " + size,
                        "give those of the operand of take", in);
            }
            if (after < 0 || g.rank() < after || !g.slice(axis, after).equals(in[1].shape())) {
                throw Check.shape(this, "the dimensions from " + axis + " on must be those of the index",
                        "pass the gradient of take", in);
            }
            return new Spec[] {in[0].with(g.slice(0, axis).concat(Shape.of(size)).concat(g.slice(after, g.rank())))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new Take(axis), b.grad(), b.in(1)), null};
        }
    }

    /**
     * Operands {@code (x, index)} of the same rank: {@code y[.., i, ..] = x[.., index[.., i, ..], ..]}. Sizes of the
     * index may be smaller than those of {@code x}; the size in dimension {@code axis} is not restricted.
     *
     * @param axis the dimension, counted from the front
     */
    record Gather(int axis) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            within(this, axis, in[0], in[1], in);
            return new Spec[] {in[0].with(in[1].shape())};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new ScatterAdd(axis), b.in(0).zerosLike(), b.in(1), b.grad()), null};
        }
    }

    /**
     * Operands {@code (base, index, source)}: a copy of {@code base} with {@code source} added at {@code index}:
     * {@code y[.., index[.., i, ..], ..] += source[.., i, ..]}, in row-major order.
     *
     * @param axis the dimension, counted from the front
     */
    record ScatterAdd(int axis) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            return scattered(this, axis, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad(), null,
                b.needs(2) ? Tensor.compute(new Gather(axis), b.grad(), b.in(1)) : null};
        }
    }

    /**
     * Operands {@code (base, index, source)}: a copy of {@code base} with {@code source} written at {@code index}. The
     * last of equal indices wins. The gradient of {@code source} is correct where no index repeats.
     *
     * @param axis the dimension, counted from the front
     */
    record Scatter(int axis) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            return scattered(this, axis, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor zeros = b.in(2).zerosLike();
            return new Tensor[] {b.needs(0) ? Tensor.compute(new Scatter(axis), b.grad(), b.in(1), zeros) : null, null,
                b.needs(2) ? Tensor.compute(new Gather(axis), b.grad(), b.in(1)) : null};
        }
    }

    /**
     * The indices of the elements that are not 0, in row-major order: i64 {@code [count, rank]}.
     *
     * @param count the number of these elements, which is checked
     */
    record Nonzero(long count) implements Selection {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            return new Spec[] {new Spec(DType.I64, Shape.of(count, in[0].shape().rank()), in[0].device())};
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    private static Spec[] scattered(Op op, int axis, Spec[] in) {
        Check.operands(op, in, 3, 3);
        within(op, axis, in[0], in[1], in);
        Check.sameType(op, in[0], in[2]);
        Check.shape(in[2].shape().equals(in[1].shape()), op, "source and index must have the same shape",
                "expand one", in);
        return new Spec[] {in[0]};
    }

    private static void within(Op op, int axis, Spec x, Spec index, Spec[] in) {
        Check.index(op, index, in);
        Check.axis(op, axis, x, in);
        Check.rank(op, index, x.shape().rank(), in);
        for (int i = 0; i < x.shape().rank(); i++) {
            if (i != axis && index.shape().dim(i) > x.shape().dim(i)) {
                throw Check.shape(op, "dimension " + i + " of the index must not exceed the operand's",
                        "slice the index", in);
            }
        }
    }
}
