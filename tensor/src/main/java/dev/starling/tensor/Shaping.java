package dev.starling.tensor;

import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.View;
import java.util.Arrays;

/**
 * Operations that look at the same elements under other sizes, or copy them elsewhere. Negative axes count from the
 * end.
 */
public sealed interface Shaping permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    /**
     * Returns the elements in row-major order under other sizes, one of which may be -1; a view if the strides allow
     * it.
     */
    default Tensor reshape(long... dims) {
        long[] d = dims.clone();
        long known = 1;
        int open = -1;
        for (int i = 0; i < d.length; i++) {
            if (d[i] == -1 && open < 0) {
                open = i;
            } else {
                known *= d[i];
            }
        }
        if (open >= 0) {
            d[open] = known == 0 ? 0 : self().count() / known;
        }
        return reshape(Shape.of(d));
    }

    /** Returns the elements in row-major order under other sizes; a view if the strides allow it. */
    default Tensor reshape(Shape shape) {
        if (shape.equals(self().shape())) {
            return self();
        }
        View.Reshape op = new View.Reshape(shape);
        boolean viewable = shape.count() != self().count() || View.Reshape.strides(self(), shape) != null;
        return Tensor.compute(op, viewable ? self() : Tensor.compute(new Movement.Copy(), self()));
    }

    /** Returns dimensions {@code from} to {@code to}, both included, as one. */
    default Tensor flatten(int from, int to) {
        int f = self().shape().axis(from);
        int t = self().shape().axis(to);
        Shape s = self().shape();
        return reshape(s.slice(0, f).concat(Shape.of(s.slice(f, t + 1).count())).concat(s.slice(t + 1, s.rank())));
    }

    /** Returns the dimensions in another order. */
    default Tensor permute(int... order) {
        int[] o = new int[order.length];
        for (int i = 0; i < o.length; i++) {
            o[i] = self().shape().axis(order[i]);
        }
        return Tensor.compute(new View.Permute(o), self());
    }

    /** Returns this tensor with two dimensions exchanged. */
    default Tensor transpose(int a, int b) {
        int[] order = new int[self().rank()];
        Arrays.setAll(order, i -> i);
        int i = self().shape().axis(a);
        int j = self().shape().axis(b);
        order[i] = j;
        order[j] = i;
        return Tensor.compute(new View.Permute(order), self());
    }

    /** Returns this tensor with dimension {@code from} moved to position {@code to}, the others in their order. */
    default Tensor movedim(int from, int to) {
        int f = self().shape().axis(from);
        int t = self().shape().axis(to);
        int[] order = new int[self().rank()];
        for (int i = 0, rest = 0; i < order.length; i++) {
            order[i] = i == t ? f : rest == f ? ++rest : rest;
            rest += i == t ? 0 : 1;
        }
        return Tensor.compute(new View.Permute(order), self());
    }

    /** Returns a matrix, or a stack of matrices, transposed. */
    default Tensor t() {
        return transpose(-2, -1);
    }

    /** Returns this tensor broadcast to {@code shape}, without a copy. */
    default Tensor expand(Shape shape) {
        return shape.equals(self().shape()) ? self() : Tensor.compute(new View.Expand(shape), self());
    }

    /** Returns this tensor broadcast to these sizes, without a copy. */
    default Tensor expand(long... dims) {
        return expand(Shape.of(dims));
    }

    /** Returns this tensor with a dimension of size 1 before {@code axis}. */
    default Tensor unsqueeze(int axis) {
        return reshape(self().shape().insert(axis, 1));
    }

    /** Returns this tensor without dimension {@code axis}, whose size must be 1. */
    default Tensor squeeze(int axis) {
        return reshape(self().shape().without(axis));
    }

    /** Returns {@code size} slices along {@code axis} from {@code start} on, as a view. */
    default Tensor narrow(int axis, long start, long size) {
        int a = self().shape().axis(axis);
        long[] starts = new long[self().rank()];
        long[] steps = new long[self().rank()];
        long[] sizes = self().shape().dims();
        Arrays.fill(steps, 1);
        starts[a] = start;
        sizes[a] = size;
        return Tensor.compute(new View.Slice(starts, steps, sizes), self());
    }

    /** Returns this tensor with the order along {@code axes} reversed, as a view. */
    default Tensor flip(int... axes) {
        long[] starts = new long[self().rank()];
        long[] steps = new long[self().rank()];
        Arrays.fill(steps, 1);
        for (int axis : axes) {
            int a = self().shape().axis(axis);
            starts[a] = Math.max(0, self().size(a) - 1);
            steps[a] = -1;
        }
        return Tensor.compute(new View.Slice(starts, steps, self().shape().dims()), self());
    }

    /** Returns the elements in row-major order without gaps: this tensor if they lie so already. */
    default Tensor contiguous() {
        return self().isContiguous() ? self() : Tensor.compute(new Movement.Copy(), self());
    }

    /** Returns a row-major copy. */
    default Tensor copy() {
        return Tensor.compute(new Movement.Copy(), self());
    }

    /**
     * Returns this tensor inside a larger one of {@code value}s: {@code before[i]} in front, {@code after[i]} behind in
     * dimension {@code i}.
     */
    default Tensor pad(long[] before, long[] after, double value) {
        long[] dims = self().shape().dims();
        long[] steps = new long[dims.length];
        Arrays.fill(steps, 1);
        for (int i = 0; i < dims.length; i++) {
            dims[i] += before[i] + after[i];
        }
        return Tensor.compute(new Movement.Place(Shape.of(dims), before.clone(), steps, value), self());
    }

    /** Joins tensors along {@code axis}; they meet in their promoted type. */
    static Tensor concat(int axis, Tensor... parts) {
        DType meet = parts[0].dtype();
        for (Tensor p : parts) {
            meet = DType.promote(meet, p.dtype());
        }
        Tensor[] cast = new Tensor[parts.length];
        for (int i = 0; i < parts.length; i++) {
            cast[i] = parts[i].to(meet);
        }
        return Tensor.compute(new Movement.Concat(parts[0].shape().axis(axis)), cast);
    }

    /** Joins tensors of one shape along a new dimension before {@code axis}. */
    static Tensor stack(int axis, Tensor... parts) {
        Tensor[] rows = new Tensor[parts.length];
        for (int i = 0; i < parts.length; i++) {
            rows[i] = parts[i].unsqueeze(axis);
        }
        return concat(axis < 0 ? axis + rows[0].rank() : axis, rows);
    }

    /** Cuts this tensor along {@code axis} into views of {@code size} slices; the last may be smaller. */
    default Tensor[] split(int axis, long size) {
        long n = self().size(axis);
        Tensor[] parts = new Tensor[(int) Math.ceilDiv(n, size)];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = narrow(axis, i * size, Math.min(size, n - i * size));
        }
        return parts;
    }
}
