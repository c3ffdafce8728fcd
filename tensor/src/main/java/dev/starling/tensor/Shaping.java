package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.View;
import java.util.Arrays;
import java.util.List;

/**
 * Operations that view the same elements with other sizes, or copy them. Negative axes count from the end.
 */
public sealed interface Shaping permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    /**
     * Returns the elements in row-major order with other sizes, one of which may be -1 to be inferred; a view if the
     * strides allow it.
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

    /** Returns the elements in row-major order with other sizes; a view if the strides allow it. */
    default Tensor reshape(Shape shape) {
        if (shape.equals(self().shape())) {
            return self();
        }
        View.Reshape op = new View.Reshape(shape);
        boolean viewable = shape.count() != self().count() || View.Reshape.strides(self(), shape) != null;
        return Tensor.compute(op, viewable ? self() : Tensor.compute(new Movement.Copy(), self()));
    }

    /** Returns a tensor in which dimensions {@code from} to {@code to}, both included, are merged into one. */
    default Tensor flatten(int from, int to) {
        int f = self().shape().axis(from);
        int t = self().shape().axis(to);
        Shape s = self().shape();
        if (f > t) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "flatten", List.of(self().spec()),
                    "the first dimension must not come after the last, got " + from + " to " + to, "exchange the two");
        }
        return reshape(s.slice(0, f).concat(Shape.of(s.slice(f, t + 1).count())).concat(s.slice(t + 1, s.rank())));
    }

    /** Returns the dimensions in the given order. */
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

    /** Returns a matrix, or each matrix of a stack, transposed. */
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
        if (self().size(axis) != 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "squeeze", List.of(self().spec()),
                    "dimension " + axis + " must have size 1", "name another, or reshape");
        }
        return reshape(self().shape().without(axis));
    }

    /** Returns this tensor without its dimensions of size 1. */
    default Tensor squeeze() {
        return reshape(Arrays.stream(self().shape().dims()).filter(d -> d != 1).toArray());
    }

    /** Returns {@code size} slices along {@code axis}, beginning at {@code start}, as a view. */
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

    /** Returns the slices along {@code axis}, each without that dimension, as views. */
    default Tensor[] unstack(int axis) {
        // The operation's own array may be kept by a recorder.
        return Tensor.apply(new View.Unstack(self().shape().axis(axis)), self()).clone();
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

    /** Returns the elements in row-major order without gaps: this tensor if it already has that layout. */
    default Tensor contiguous() {
        return self().isContiguous() ? self() : Tensor.compute(new Movement.Copy(), self());
    }

    /** Returns a row-major copy. */
    default Tensor copy() {
        return Tensor.compute(new Movement.Copy(), self());
    }

    /**
     * Returns this tensor padded with {@code value}: {@code before[i]} elements in front of dimension {@code i} and
     * {@code after[i]} behind it.
     */
    default Tensor pad(long[] before, long[] after, double value) {
        long[] dims = self().shape().dims();
        long[] steps = new long[dims.length];
        Arrays.fill(steps, 1);
        if (before.length != dims.length || after.length != dims.length) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "pad", List.of(self().spec()), "needs "
                    + dims.length + " sizes before and after, got " + before.length + " and " + after.length,
                    "give one of each for each dimension");
        }
        for (int i = 0; i < dims.length; i++) {
            dims[i] += before[i] + after[i];
        }
        return Tensor.compute(new Movement.Place(Shape.of(dims), before.clone(), steps, value), self());
    }

    private void requirePositive(String op, long count) {
        if (count <= 0) {
            throw new TensorException(TensorException.Problem.ARGUMENT, op, List.of(self().spec()),
                    "the size or number of parts must be > 0, got " + count, "give a positive number");
        }
    }

    /** Splits this tensor along {@code axis} into views of {@code size} slices; the last may be smaller. */
    default Tensor[] split(int axis, long size) {
        requirePositive("split", size);
        long n = self().size(axis);
        int viewBytes = 128;
        Tensor[] parts = new Tensor[HostMemory.arrayLength("split", Math.ceilDiv(n, size), viewBytes)];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = narrow(axis, i * size, Math.min(size, n - i * size));
        }
        return parts;
    }

    /**
     * Splits this tensor along {@code axis} into {@code parts} views; the last may be smaller, and fewer may result.
     */
    default Tensor[] chunk(int axis, int parts) {
        requirePositive("chunk", parts);
        return split(axis, Math.max(1, Math.ceilDiv(self().size(axis), parts)));
    }

    /** Returns this tensor repeated {@code times[i]} times along dimension {@code i}. */
    default Tensor tile(long... times) {
        int rank = Math.max(times.length, self().rank());
        int lead = rank - self().rank();
        long[] apart = new long[2 * rank];
        long[] repeated = new long[2 * rank];
        long[] merged = new long[rank];
        for (int i = 0; i < rank; i++) {
            int t = i - (rank - times.length);
            apart[2 * i] = 1;
            repeated[2 * i] = t < 0 ? 1 : times[t];
            apart[2 * i + 1] = i < lead ? 1 : self().size(i - lead);
            repeated[2 * i + 1] = apart[2 * i + 1];
            merged[i] = repeated[2 * i] * repeated[2 * i + 1];
        }
        if (apart.length <= Shape.MAX_RANK) {
            return reshape(apart).expand(repeated).reshape(merged);
        }
        Tensor tiled = self();
        for (int i = 0; i < lead; i++) {
            tiled = tiled.unsqueeze(0);
        }
        for (int i = rank - 1; i >= 0; i--) {
            tiled = repeated[2 * i] == 1 ? tiled : ((Shaping) tiled).repeated(i, repeated[2 * i], true);
        }
        return tiled;
    }

    /** Returns dimension {@code a} repeated as a whole, or each of its slices, with four dimensions on the way. */
    private Tensor repeated(int a, long times, boolean whole) {
        Shape s = self().shape();
        long before = s.slice(0, a).count();
        long n = s.dim(a);
        long after = s.slice(a + 1, s.rank()).count();
        return reshape(before, whole ? 1 : n, whole ? n : 1, after)
                .expand(before, whole ? times : n, whole ? n : times, after).reshape(s.with(a, n * times));
    }

    /** Returns each slice along {@code axis} repeated {@code times} times in succession. */
    default Tensor repeat(int axis, long times) {
        int a = self().shape().axis(axis);
        if (self().rank() == Shape.MAX_RANK) {
            return repeated(a, times, false);
        }
        Tensor apart = unsqueeze(a + 1);
        return apart.expand(apart.shape().with(a + 1, times)).flatten(a, a + 1);
    }

    /**
     * Returns the elements shifted by {@code shift} positions along {@code axis}; elements that leave re-enter at the
     * other end.
     */
    default Tensor roll(int axis, long shift) {
        long n = self().size(axis);
        long from = n == 0 ? 0 : (n - Math.floorMod(shift, n)) % n;
        return from == 0 ? self() : Tensor.concat(axis, narrow(axis, from, n - from), narrow(axis, 0, from));
    }

    /** Returns the last two dimensions with 0 above the diagonal that is {@code offset} above the main one. */
    default Tensor tril(long offset) {
        return self().maskedFill(columnsMinusRows().gt(offset), 0);
    }

    /** Returns the last two dimensions with 0 below the diagonal that is {@code offset} above the main one. */
    default Tensor triu(long offset) {
        return self().maskedFill(columnsMinusRows().lt(offset), 0);
    }

    private Tensor columnsMinusRows() {
        Tensor rows = Tensor.arange(new Spec(DType.I64, Shape.of(self().size(-2)), self().device()), 0, 1);
        Tensor columns = Tensor.arange(new Spec(DType.I64, Shape.of(self().size(-1)), self().device()), 0, 1);
        return columns.sub(rows.unsqueeze(1));
    }

    /**
     * Returns the elements whose index in dimension {@code b} exceeds that in dimension {@code a} by {@code offset}.
     * Both dimensions are removed; the diagonal becomes the last dimension.
     */
    default Tensor diagonal(long offset, int a, int b) {
        int i = self().shape().axis(a);
        int j = self().shape().axis(b);
        if (i == j) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "diagonal", List.of(self().spec()),
                    "the dimensions must differ, got " + a + " and " + b, "name two dimensions");
        }
        Tensor x = self().movedim(i, -1).movedim(j > i ? j - 1 : j, -1);
        long rows = x.size(-2);
        long columns = x.size(-1);
        long n = Math.max(0, Math.min(rows + Math.min(offset, 0), columns - Math.max(offset, 0)));
        if (n == 0) {
            return x.narrow(-1, 0, 0).narrow(-2, 0, 0).reshape(x.shape().without(-2).with(-1, 0));
        }
        Tensor flat = x.flatten(-2, -1);
        long[] starts = new long[flat.rank()];
        long[] steps = new long[flat.rank()];
        long[] sizes = flat.shape().dims();
        Arrays.fill(steps, 1);
        starts[flat.rank() - 1] = offset < 0 ? -offset * columns : offset;
        steps[flat.rank() - 1] = columns + 1;
        sizes[flat.rank() - 1] = n;
        return Tensor.compute(new View.Slice(starts, steps, sizes), flat);
    }

    /** Returns the sum over the diagonal of the last two dimensions, which are removed. */
    default Tensor trace() {
        return diagonal(0, -2, -1).sum(-1);
    }
}
