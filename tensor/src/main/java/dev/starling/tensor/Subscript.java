package dev.starling.tensor;

import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * Indices resolved against a tensor. Ranges, positions and new axes form a view of it; the elements that arrays and
 * masks select are taken from that view, with the array dimensions moved to its front and merged.
 */
final class Subscript {
    private final Tensor target;
    private final List<Long> dims = new ArrayList<>();
    private final List<Tensor> arrays = new ArrayList<>();
    private final List<Integer> axes = new ArrayList<>();
    private final long[] starts;
    private final long[] steps;
    private final long[] sizes;
    private final Tensor view;
    private int done;
    private int runs;
    private int position;
    private boolean within;

    /**
     * Resolves {@code indices}. Afterwards {@code view} has the dimensions {@code dims}; those indexed by arrays are
     * whole.
     */
    Subscript(Tensor target, Index... indices) {
        this.target = target;
        starts = new long[target.rank()];
        steps = new long[target.rank()];
        sizes = new long[target.rank()];
        int left = target.rank();
        int ellipses = 0;
        for (Index index : indices) {
            left -= consumed(index);
            ellipses += index instanceof Index.Ellipsis ? 1 : 0;
        }
        if (left < 0 || ellipses > 1) {
            throw fault(TensorException.Problem.INDEX, left < 0 ? "there must not be more indices than dimensions"
                    : "there must not be more than one ellipsis", "remove one");
        }
        for (Index index : indices) {
            switch (index) {
                case Index.At at -> place(at.place());
                case Index.Range range -> range(range);
                case Index.NewAxis axis -> {
                    dims.add(1L);
                    within = false;
                }
                case Index.Ellipsis ellipsis -> rest(left);
                case Index.Of of -> array(of.places());
                case Index.Mask mask -> mask(mask.chosen());
            }
        }
        rest(target.rank() - done);
        position = runs > 1 ? 0 : position;
        Tensor slice = Tensor.compute(new View.Slice(starts, steps, sizes), target);
        view = slice.reshape(dims.stream().mapToLong(Long::longValue).toArray());
    }

    private static int consumed(Index index) {
        return switch (index) {
            case Index.NewAxis axis -> 0;
            case Index.Ellipsis ellipsis -> 0;
            case Index.Mask mask -> mask.chosen().rank();
            case Index.At at -> 1;
            case Index.Range range -> 1;
            case Index.Of of -> 1;
        };
    }

    private TensorException fault(TensorException.Problem problem, String relation, String remedy) {
        return new TensorException(problem, "index", List.of(target.spec()), relation, remedy);
    }

    private void place(long place) {
        long size = target.size(done);
        if (place < -size || place >= size) {
            throw fault(TensorException.Problem.INDEX, "place " + place + " is not in dimension " + done + " of size "
                    + size, "use " + -size + " to " + (size - 1));
        }
        advanced();
        slice(place < 0 ? place + size : place, 1, 1);
    }

    private void range(Index.Range range) {
        long size = target.size(done);
        within = false;
        dims.add(range.count(size));
        slice(range.first(size), range.step(), range.count(size));
    }

    private void rest(int count) {
        within = false;
        for (int i = 0; i < count; i++) {
            range(new Index.Range(Index.OPEN, Index.OPEN, 1));
        }
    }

    private void array(Tensor places) {
        advanced();
        axes.add(dims.size());
        dims.add(target.size(done));
        arrays.add(places);
        slice(0, 1, target.size(done));
    }

    private void mask(Tensor chosen) {
        Shape covered = target.shape().slice(done, done + chosen.rank());
        if (!covered.equals(chosen.shape())) {
            throw fault(TensorException.Problem.SHAPE, "a mask of " + chosen.shape() + " must have the sizes "
                    + covered + " of the dimensions that it indexes", "reshape the mask");
        }
        Tensor places = chosen.nonzero();
        for (int i = 0; i < chosen.rank(); i++) {
            array(places.narrow(1, i, 1).squeeze(1));
        }
    }

    private void slice(long start, long step, long size) {
        starts[done] = start;
        steps[done] = step;
        sizes[done] = size;
        done++;
    }

    /** Notes the position of the dimensions of adjacent arrays; separated arrays put theirs first. */
    private void advanced() {
        if (!within) {
            position = runs++ == 0 ? dims.size() - arrays.size() : position;
        }
        within = true;
    }

    /** Returns the selected elements. */
    Tensor get() {
        if (arrays.isEmpty()) {
            return view;
        }
        Tensor places = places();
        Tensor taken = arrays.size() == 1 ? view.take(axes.get(0), places) : merged().take(0, places);
        return moveBlock(taken, arrays.size() == 1 ? axes.get(0) : 0, places.rank(), position);
    }

    /** Writes {@code source}, converted and broadcast, to the selected elements. */
    void set(Tensor source) {
        if (arrays.isEmpty()) {
            Tensor.apply(new Update.Assign(), view, source);
            return;
        }
        Tensor places = places();
        Tensor base = merged();
        Shape rest = base.shape().slice(1, base.rank());
        Shape shape = rest.slice(0, position).concat(places.shape()).concat(rest.slice(position, rest.rank()));
        Tensor rows = moveBlock(source.to(target.dtype()).expand(shape), position, places.rank(), 0)
                .reshape(Shape.of(places.count()).concat(rest));
        long[] column = new long[base.rank()];
        Arrays.fill(column, 1);
        column[0] = places.count();
        Tensor index = places.reshape(column).expand(rows.shape());
        Tensor updated = base.scatter(0, index, rows);
        Tensor front = front();
        Tensor.apply(new Update.Assign(), front, updated.reshape(front.shape()));
    }

    /** Returns the view with the array dimensions in front. */
    private Tensor front() {
        int[] order = new int[view.rank()];
        int n = 0;
        for (int axis : axes) {
            order[n++] = axis;
        }
        for (int i = 0; i < order.length; i++) {
            if (!axes.contains(i)) {
                order[n++] = i;
            }
        }
        return view.permute(order);
    }

    private Tensor merged() {
        return front().flatten(0, arrays.size() - 1);
    }

    /** Returns the arrays, broadcast together, as one index into their merged dimensions. */
    private Tensor places() {
        if (arrays.size() == 1) {
            return arrays.get(0);
        }
        Tensor linear = null;
        for (int i = 0; i < arrays.size(); i++) {
            long size = view.size(axes.get(i));
            Tensor a = arrays.get(i).to(DType.I64);
            if (a.lt(-size).or(a.ge(size)).any().itemLong() != 0) {
                throw fault(TensorException.Problem.INDEX, "indices of a dimension of size " + size
                        + " must lie within it, got " + a.min().itemLong() + " to " + a.max().itemLong(),
                        "use " + -size + " to " + (size - 1));
            }
            a = a.lt(0).where(a.add(size), a);
            linear = linear == null ? a : linear.mul(size).add(a);
        }
        return Objects.requireNonNull(linear, "a subscript with places has arrays");
    }

    /**
     * Returns {@code x} with the {@code count} dimensions that start at {@code from} moved so that they start at
     * {@code to}.
     */
    private static Tensor moveBlock(Tensor x, int from, int count, int to) {
        if (from == to) {
            return x;
        }
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < x.rank(); i++) {
            if (i < from || i >= from + count) {
                order.add(i);
            }
        }
        for (int i = 0; i < count; i++) {
            order.add(to + i, from + i);
        }
        return x.permute(order.stream().mapToInt(Integer::intValue).toArray());
    }
}
