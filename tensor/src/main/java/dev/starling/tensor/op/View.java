package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Operations that view the operand's memory with other sizes and strides; no element moves. */
public sealed interface View extends Op {
    /**
     * Makes the view, or the first of several.
     *
     * @param result the view's spec, as {@link #infer} returns it
     */
    Tensor view(Tensor operand, Spec result);

    /**
     * Makes all views: a single one, except for {@link Unstack}.
     *
     * @param results as {@link #infer} returns them
     */
    default Tensor[] views(Tensor operand, Spec[] results) {
        return new Tensor[] {view(operand, results[0])};
    }

    /**
     * The slices of a dimension, each without it: {@code [.., n, ..]} gives n views {@code [.., ..]}. The gradient
     * joins those of the slices in one copy.
     *
     * @param axis the dimension, counted from the front, of size 1 to {@value #MAX_PARTS}
     */
    record Unstack(int axis) implements View {
        /** The maximum number of views. */
        public static final int MAX_PARTS = 65_536;

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            if (axis < 0 || axis >= in[0].shape().rank() || in[0].shape().dim(axis) < 1
                    || in[0].shape().dim(axis) > MAX_PARTS) {
                throw Check.argument(this, "needs a dimension " + axis + " of size 1 to " + MAX_PARTS,
                        "choose another dimension", in);
            }
            Spec[] parts = new Spec[(int) in[0].shape().dim(axis)];
            Arrays.fill(parts, in[0].with(in[0].shape().without(axis)));
            return parts;
        }

        @Override
        public Tensor view(Tensor x, Spec result) {
            return part(x, result, 0);
        }

        @Override
        public Tensor[] views(Tensor x, Spec[] results) {
            Tensor[] parts = new Tensor[results.length];
            Arrays.setAll(parts, i -> part(x, results[i], i));
            return parts;
        }

        private Tensor part(Tensor x, Spec result, int i) {
            long[] strides = new long[x.rank() - 1];
            System.arraycopy(x.sharedStrides(), 0, strides, 0, axis);
            System.arraycopy(x.sharedStrides(), axis + 1, strides, axis, strides.length - axis);
            return x.storage().view(result, strides, x.offset() + i * x.stride(axis));
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor[] parts = new Tensor[b.outputs().length];
            Arrays.setAll(parts, i -> b.grad(i).unsqueeze(axis));
            return new Tensor[] {Tensor.compute(new Movement.Concat(axis), parts)};
        }
    }

    /**
     * The same elements in row-major order with other sizes. The operand's strides must allow it; {@link
     * dev.starling.tensor.Shaping#reshape} copies first if they do not.
     *
     * @param shape the new sizes
     */
    record Reshape(Shape shape) implements View {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            if (shape.count() != in[0].shape().count()) {
                throw Check.shape(this, "needs " + shape.count() + " elements, as many as " + shape,
                        "give sizes with the same product", in);
            }
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor view(Tensor x, Spec result) {
            return x.storage().view(result, Objects.requireNonNull(strides(x, shape)), x.offset());
        }

        /**
         * Returns the strides with which {@code x} has the sizes {@code shape} without a copy, or {@code null} if there
         * are none.
         */
        public static long @Nullable [] strides(Tensor x, Shape shape) {
            if (x.isContiguous()) {
                return shape.sharedStrides();
            }
            long[] result = new long[shape.rank()];
            int to = shape.rank() - 1;
            int from = x.rank() - 1;
            while (from >= 0) {
                if (x.size(from) == 1) {
                    from--;
                    continue;
                }
                long stride = x.stride(from);
                long chunk = 1;
                while (from >= 0 && (x.size(from) == 1 || x.stride(from) == stride * chunk)) {
                    chunk *= x.size(from--);
                }
                long filled = 1;
                while (to >= 0 && (filled < chunk || shape.dim(to) == 1)) {
                    result[to] = stride * filled;
                    filled *= shape.dim(to);
                    to--;
                }
                if (filled != chunk) {
                    return null;
                }
            }
            while (to >= 0) {
                result[to--] = 1;
            }
            return result;
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().reshape(b.in(0).shape())};
        }
    }

    /**
     * Dimensions in another order: dimension {@code i} of the result is dimension {@code order[i]} of the operand.
     *
     * @param order a permutation of the dimensions
     */
    record Permute(int... order) implements View {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            int rank = in[0].shape().rank();
            int seen = 0;
            for (int axis : order) {
                seen |= axis >= 0 && axis < rank ? 1 << axis : 0;
            }
            if (order.length != rank || Integer.bitCount(seen) != rank) {
                throw Check.argument(this, Arrays.toString(order) + " must name each dimension once",
                        "give a permutation of the dimensions", in);
            }
            return new Spec[] {in[0].with(in[0].shape().permute(order))};
        }

        @Override
        public Tensor view(Tensor x, Spec result) {
            long[] strides = new long[order.length];
            for (int i = 0; i < order.length; i++) {
                strides[i] = x.stride(order[i]);
            }
            return x.storage().view(result, strides, x.offset());
        }

        @Override
        public Tensor[] vjp(Backward b) {
            int[] inverse = new int[order.length];
            for (int i = 0; i < order.length; i++) {
                inverse[order[i]] = i;
            }
            return new Tensor[] {b.grad().permute(inverse)};
        }
    }

    /**
     * Repeats dimensions of size 1 and adds leading ones, by NumPy's broadcasting rules.
     *
     * @param shape the sizes to broadcast to
     */
    record Expand(Shape shape) implements View {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            if (!shape.equals(Shape.broadcast(in[0].shape(), shape))) {
                throw Check.shape(this, "must broadcast to " + shape, "sizes must agree or be 1", in);
            }
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor view(Tensor x, Spec result) {
            long[] strides = new long[shape.rank()];
            int lead = shape.rank() - x.rank();
            for (int i = 0; i < x.rank(); i++) {
                strides[lead + i] = x.size(i) == shape.dim(lead + i) ? x.stride(i) : 0;
            }
            return x.storage().view(result, strides, x.offset());
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().sumTo(b.in(0).shape())};
        }
    }

    /**
     * A regular grid of elements: index {@code i} of dimension {@code d} is {@code starts[d] + i·steps[d]}.
     *
     * @param starts first index of each dimension
     * @param steps distance between neighbours; negative runs backwards
     * @param sizes sizes of the result
     */
    record Slice(long[] starts, long[] steps, long[] sizes) implements View {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            check(this, in[0].shape(), starts, steps, sizes, "clip the slice", in);
            return new Spec[] {in[0].with(Shape.of(sizes))};
        }

        /** Requires a grid to be within {@code shape}. None of the sums and products here can overflow. */
        static void check(Op op, Shape shape, long[] starts, long[] steps, long[] sizes, String remedy, Spec... in) {
            int rank = shape.rank();
            Check.argument(starts.length == rank && steps.length == rank && sizes.length == rank, op,
                    "needs a start, step and size for each dimension", "give one of each per dimension", in);
            for (int i = 0; i < rank; i++) {
                long max = steps[i] == 0 ? 0
                        : (steps[i] > 0 ? shape.dim(i) - 1 - starts[i] : -starts[i]) / steps[i];
                boolean within = sizes[i] == 0 || starts[i] >= 0 && starts[i] < shape.dim(i) && sizes[i] > 0
                        && sizes[i] - 1 <= max;
                if (!within) {
                    Check.shape(false, op, "dimension " + i + ": " + sizes[i] + " from " + starts[i] + " on, "
                            + steps[i] + " apart, must lie within " + shape.dim(i) + " and differ", remedy, in);
                }
            }
        }

        @Override
        public Tensor view(Tensor x, Spec result) {
            long[] strides = new long[starts.length];
            long offset = x.offset();
            for (int i = 0; i < starts.length; i++) {
                strides[i] = sizes[i] <= 1 ? x.stride(i) : x.stride(i) * steps[i];
                offset += sizes[i] == 0 ? 0 : starts[i] * x.stride(i);
            }
            return x.storage().view(result, strides, offset);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new Movement.Place(b.in(0).shape(), starts, steps, 0), b.grad())};
        }
    }
}
