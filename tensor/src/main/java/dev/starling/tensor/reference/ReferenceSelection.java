package dev.starling.tensor.reference;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.TensorException.Problem;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Selection;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Reads and writes at indices; each index is checked. */
final class ReferenceSelection {
    private ReferenceSelection() {
    }

    static void run(Selection op, Tensor[] in, Tensor out) {
        switch (op) {
            case Selection.Take o -> take(o, in[0], in[1], out);
            case Selection.TakeGradient o -> takeGradient(o, in[0], in[1], out);
            case Selection.Gather o -> {
                long[] places = places(o, in, in[0], in[1], o.axis());
                Elements x = Elements.of(in[0]);
                Elements y = Elements.of(out);
                for (int i = 0; i < places.length; i++) {
                    y.copy(i, x, places[i]);
                }
            }
            case Selection.Scatter o -> {
                long[] places = places(o, in, in[0], in[1], o.axis());
                ReferenceMovement.copy(in[0], out);
                Elements source = Elements.of(in[2]);
                Elements y = Elements.of(out);
                for (int i = 0; i < places.length; i++) {
                    y.copy(places[i], source, i);
                }
            }
            case Selection.ScatterAdd o -> {
                Sums sums = new Sums(in[0]);
                Elements source = Elements.of(in[2]);
                long[] places = places(o, in, in[0], in[1], o.axis());
                for (int i = 0; i < places.length; i++) {
                    sums.add(places[i], source, i);
                }
                sums.store(out);
            }
            case Selection.Nonzero o -> nonzero(o, in[0], out);
        }
    }

    private static void take(Selection.Take op, Tensor x, Tensor index, Tensor out) {
        long size = x.size(op.axis());
        long inner = x.shape().slice(op.axis() + 1, x.rank()).count();
        long outer = x.shape().slice(0, op.axis()).count();
        Elements indices = Elements.of(index);
        Elements from = Elements.of(x);
        Elements to = Elements.of(out);
        for (long j = 0; j < index.count(); j++) {
            long k = checked(op, indices.getLong(j), size, j, x, index);
            for (long o = 0; o < outer; o++) {
                for (long i = 0; i < inner; i++) {
                    to.copy((o * index.count() + j) * inner + i, from, (o * size + k) * inner + i);
                }
            }
        }
    }

    private static void takeGradient(Selection.TakeGradient op, Tensor g, Tensor index, Tensor out) {
        long inner = out.shape().slice(op.axis() + 1, out.rank()).count();
        long outer = out.shape().slice(0, op.axis()).count();
        Elements indices = Elements.of(index);
        Elements from = Elements.of(g);
        Sums sums = new Sums(out.shape(), g.dtype().isFloating());
        for (long j = 0; j < index.count(); j++) {
            long k = checked(op, indices.getLong(j), op.size(), j, g, index);
            for (long o = 0; o < outer; o++) {
                for (long i = 0; i < inner; i++) {
                    sums.add((o * op.size() + k) * inner + i, from, (o * index.count() + j) * inner + i);
                }
            }
        }
        sums.store(out);
    }

    /**
     * Returns, for each element of {@code index}, the number of the element of {@code x} that it selects along
     * {@code axis}.
     */
    private static long[] places(Op op, Tensor[] in, Tensor x, Tensor index, int axis) {
        Elements indices = Elements.of(index);
        long[] strides = x.shape().sharedStrides();
        long[] places = new long[Math.toIntExact(index.count())];
        for (int i = 0; i < places.length; i++) {
            long[] at = coordinates(i, index.shape());
            at[axis] = checked(op, indices.getLong(i), x.size(axis), i, in);
            for (int d = 0; d < at.length; d++) {
                places[i] += at[d] * strides[d];
            }
        }
        return places;
    }

    private static void nonzero(Selection.Nonzero op, Tensor x, Tensor out) {
        Elements from = Elements.of(x);
        Elements to = Elements.of(out);
        long found = 0;
        for (long i = 0; i < x.count(); i++) {
            if (from.floating() ? from.get(i) != 0 : from.getLong(i) != 0) {
                long[] at = coordinates(i, x.shape());
                for (int d = 0; d < at.length && found < op.count(); d++) {
                    to.setLong(found * at.length + d, at[d]);
                }
                found++;
            }
        }
        if (found != op.count()) {
            throw new TensorException(Problem.ARGUMENT, op.name(), List.of(x.spec()),
                    "there are " + found + " elements that are not 0, but count is " + op.count(),
                    "count them first, or use the method nonzero");
        }
    }

    static long[] coordinates(long i, Shape shape) {
        long[] at = new long[shape.rank()];
        long rest = i;
        for (int d = at.length - 1; d >= 0; d--) {
            at[d] = rest % shape.dim(d);
            rest /= shape.dim(d);
        }
        return at;
    }

    private static long checked(Op op, long index, long size, long position, Tensor... operands) {
        if (index < -size || index >= size) {
            throw outOfRange(op, index, position, -size, size - 1, operands);
        }
        return index < 0 ? index + size : index;
    }

    static TensorException outOfRange(Op op, long index, long position, long min, long max, Tensor... operands) {
        List<Spec> specs = Arrays.stream(operands).map(Tensor::spec).toList();
        return new TensorException(Problem.INDEX, op.name(), specs,
                "index " + index + " at position " + position + " must lie between " + min + " and " + max,
                "correct the index");
    }

    /** Sums that are rounded once, at the end. */
    private static final class Sums {
        /** One of the two is present: the sums of floating types, or those of integers. */
        private final double @Nullable [] floats;
        private final long @Nullable [] integers;

        Sums(Shape shape, boolean floating) {
            int n = Math.toIntExact(shape.count());
            floats = floating ? new double[n] : null;
            integers = floating ? null : new long[n];
        }

        Sums(Tensor start) {
            this(start.shape(), start.dtype().isFloating());
            Elements x = Elements.of(start);
            for (int i = 0; i < start.count(); i++) {
                add(i, x, i);
            }
        }

        void add(long i, Elements x, long j) {
            if (floats != null) {
                floats[(int) i] += x.get(j);
            } else {
                Objects.requireNonNull(integers)[(int) i] += x.getLong(j);
            }
        }

        void store(Tensor out) {
            Elements y = Elements.of(out);
            for (int i = 0; i < out.count(); i++) {
                if (floats != null) {
                    y.set(i, floats[i]);
                } else {
                    y.setLong(i, Objects.requireNonNull(integers)[i]);
                }
            }
        }
    }
}
