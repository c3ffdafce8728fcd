package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.View;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.StringJoiner;
import java.util.stream.IntStream;

/**
 * A recipe for a tensor, the same on every device: the operand is a view of a row-major base. Elements of the base
 * outside of the view are NaN, or 99 for integers, so that a read of them is detected.
 *
 * @param dtype element type
 * @param dims sizes
 * @param layout layout of the view in the base
 * @param reals the operand's elements in row-major order
 */
record Operand(DType dtype, long[] dims, Layout layout, double[] reals) {
    /** The memory layout of an operand. */
    enum Layout {
        /** Row-major without gaps. */
        DENSE,
        /** After other elements. */
        LATER,
        /** The last two dimensions swapped. */
        SWAPPED,
        /** Dimensions in reverse order. */
        TRANSPOSED,
        /** Dimension 1 last in memory. */
        CHANNELS_LAST,
        /** Every second element of every dimension. */
        STEPPED,
        /** Every second element of the last dimension. */
        COLUMNS,
        /** The last dimension backwards. */
        FLIPPED,
        /** Every dimension backwards. */
        REVERSED,
        /** Every second element of every dimension, backwards. */
        STEPPED_BACK,
        /** A block in the middle. */
        INNER,
        /** One slice repeated along the first dimension. */
        REPEATED,
        /** One column repeated along the last dimension. */
        REPEATED_LAST,
        /** One element repeated. */
        ONE,
        /** The diagonal of two outer dimensions, as the last: strides interleave. */
        DIAGONAL;

        boolean repeats(int axis, int rank) {
            return this == ONE || this == REPEATED && axis == 0 || this == REPEATED_LAST && axis == rank - 1;
        }
    }

    static final int MAX_COUNT = 400;

    /** Sizes, beginning with the simplest: small, none, odd, and around the widths of vectors. */
    private static final int[] SIZES = {1, 2, 3, 0, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65};

    /** Draws sizes of {@code rank} dimensions with at most {@link #MAX_COUNT} elements. */
    static long[] sizes(Choices c, int rank) {
        long[] dims = new long[rank];
        long count = 1;
        for (int i = 0; i < rank; i++) {
            int longest = 0;
            while (longest < SIZES.length && Math.max(1, SIZES[longest]) * count <= MAX_COUNT) {
                longest++;
            }
            // Empty operands are rare, because they reveal little.
            int size = SIZES[c.next(Math.max(1, longest))];
            dims[i] = size == 0 && c.oneIn(2) ? 0 : Math.max(1, size);
            count *= Math.max(1, dims[i]);
        }
        return dims;
    }

    /** Draws an operand of the given type and sizes. */
    static Operand of(Choices c, DType dtype, Values values, long... dims) {
        boolean altered = c.wild && c.oneIn(5);
        DType type = altered && c.oneIn(2) ? c.of(DType.values()) : dtype;
        long[] sizes = altered && c.oneIn(2) ? sizes(c, c.next(6)) : dims;
        Layout layout = c.oneIn(2) ? c.of(Layout.values()) : Layout.DENSE;
        int n = (int) Shape.of(sizes).count();
        double[] reals = values.draw(c, type, n);
        for (int axis = 0; axis < sizes.length; axis++) {
            if (layout.repeats(axis, sizes.length)) {
                repeat(reals, sizes, axis);
            }
        }
        return new Operand(type, sizes, layout, reals);
    }

    /** Draws indices of {@code size} positions, including negative ones; in wild cases also indices out of range. */
    static Operand indices(Choices c, long size, long... dims) {
        Operand like = of(c, c.of(DType.I64, DType.I32), Values.TAME, dims);
        if (!like.dtype.isInteger()) {
            return like;
        }
        boolean wild = c.wild && c.oneIn(4);
        SplittableRandom random = new SplittableRandom(c.next(1 << 20));
        boolean fromEnd = c.oneIn(2);
        double[] places = new double[like.reals.length];
        for (int i = 0; i < places.length; i++) {
            places[i] = size == 0 ? 0 : random.nextLong(fromEnd ? -size : 0, size);
        }
        if (wild && places.length > 0) {
            places[random.nextInt(places.length)] = c.ofReals(size, -size - 1, Integer.MAX_VALUE, Integer.MIN_VALUE,
                    like.dtype == DType.I64 ? 0x1p62 : 1 << 30, like.dtype == DType.I64 ? -0x1p63 : -1 << 30);
        }
        for (int axis = 0; axis < like.dims.length; axis++) {
            if (like.layout.repeats(axis, like.dims.length)) {
                repeat(places, like.dims, axis);
            }
        }
        return new Operand(like.dtype, like.dims, like.layout, places);
    }

    /** Makes elements equal along {@code axis}. */
    private static void repeat(double[] reals, long[] dims, int axis) {
        int inner = 1;
        for (int i = axis + 1; i < dims.length; i++) {
            inner *= (int) dims[i];
        }
        for (int i = 0; i < reals.length; i++) {
            int place = (int) (i / inner % dims[axis]);
            reals[i] = reals[i - place * inner];
        }
    }

    Shape shape() {
        return Shape.of(dims);
    }

    int rank() {
        return dims.length;
    }

    /** Makes the tensor. */
    Tensor on(Device device) {
        if (layout == Layout.DENSE) {
            return Device.with(device, () -> dtype.isFloating() ? stored(reals.clone(), dims)
                    : stored(Arrays.stream(reals).mapToLong(Operand::integer).toArray(), dims));
        }
        long[] sizes = base();
        int n = (int) Shape.of(sizes).count();
        return Device.with(device, () -> {
            Tensor numbers = Tensor.of(IntStream.range(0, n).mapToLong(i -> i).toArray(), sizes);
            Snapshot places = Snapshot.of(view(numbers));
            double gap = dtype.isFloating() ? Double.NaN : 99;
            long[] whole = new long[n];
            double[] real = new double[n];
            Arrays.fill(whole, (long) gap);
            Arrays.fill(real, gap);
            double[] order = places.reals();
            for (int i = 0; i < order.length; i++) {
                whole[(int) order[i]] = integer(reals[i]);
                real[(int) order[i]] = reals[i];
            }
            numbers.close();
            return view(dtype.isFloating() ? stored(real, sizes) : stored(whole, sizes));
        });
    }

    private static long integer(double value) {
        return value == 0x1p63 ? Long.MAX_VALUE : (long) value;
    }

    private Tensor stored(double[] elements, long... sizes) {
        return narrowed(Tensor.of(elements, sizes.length == 0 ? new long[] {1} : sizes), sizes);
    }

    private Tensor stored(long[] elements, long... sizes) {
        return narrowed(Tensor.of(elements, sizes.length == 0 ? new long[] {1} : sizes), sizes);
    }

    /** Converts by the reference device: element by element, rounded once. */
    private Tensor narrowed(Tensor wide, long... sizes) {
        if (wide.dtype() == dtype) {
            return wide.reshape(sizes);
        }
        Tensor result = Storage.allocate(wide.spec().with(dtype).with(Shape.of(sizes)));
        for (int i = 0; i < wide.count(); i++) {
            long from = wide.address() + 8L * i;
            long to = result.address() + (long) i * dtype.bytes();
            if (dtype.isFloating()) {
                HostMemory.putDouble(dtype, to, HostMemory.getDouble(DType.F64, from));
            } else {
                HostMemory.putLong(dtype, to, HostMemory.getLong(DType.I64, from));
            }
        }
        wide.close();
        return result;
    }

    private long[] base() {
        int n = dims.length;
        return switch (layout) {
            case LATER -> new long[] {3 + shape().count()};
            case SWAPPED, TRANSPOSED, CHANNELS_LAST -> Arrays.stream(order()).mapToLong(i -> dims[i]).toArray();
            case STEPPED, STEPPED_BACK -> Arrays.stream(dims).map(d -> 2 * d + 1).toArray();
            case COLUMNS -> changed(n - 1, n == 0 ? 0 : 2 * dims[n - 1] + 1);
            case INNER -> Arrays.stream(dims).map(d -> d + 3).toArray();
            case REPEATED -> changed(0, n == 0 ? 0 : Math.min(1, dims[0]));
            case REPEATED_LAST -> changed(n - 1, n == 0 ? 0 : Math.min(1, dims[n - 1]));
            case ONE -> Arrays.stream(dims).map(d -> Math.min(1, d)).toArray();
            case DIAGONAL -> {
                if (n == 0) {
                    yield dims;
                }
                long[] outer = new long[n + 1];
                System.arraycopy(dims, 0, outer, 1, n);
                outer[0] = dims[n - 1];
                yield outer;
            }
            case DENSE, FLIPPED, REVERSED -> dims;
        };
    }

    private long[] changed(int axis, long size) {
        long[] d = dims.clone();
        if (d.length > 0) {
            d[axis] = size;
        }
        return d;
    }

    /** Returns the dimension of the operand that is the i-th in memory. */
    private int[] order() {
        int n = dims.length;
        int[] order = new int[n];
        Arrays.setAll(order, i -> layout == Layout.TRANSPOSED ? n - 1 - i : i);
        if (layout == Layout.SWAPPED && n >= 2) {
            order[n - 2] = n - 1;
            order[n - 1] = n - 2;
        }
        if (layout == Layout.CHANNELS_LAST && n >= 2) {
            Arrays.setAll(order, i -> i == 0 ? 0 : i == n - 1 ? 1 : i + 1);
        }
        return order;
    }

    private int[] inverse() {
        int[] order = order();
        int[] inverse = new int[order.length];
        for (int i = 0; i < order.length; i++) {
            inverse[order[i]] = i;
        }
        return inverse;
    }

    private Tensor view(Tensor base) {
        int n = dims.length;
        if (n == 0 && layout != Layout.LATER) {
            return base;
        }
        return switch (layout) {
            case DENSE -> base;
            case LATER -> base.narrow(0, 3, shape().count()).reshape(dims);
            case SWAPPED, TRANSPOSED, CHANNELS_LAST -> base.permute(inverse());
            case STEPPED -> slice(base, Arrays.stream(dims).map(d -> 1).toArray(), filled(n, 2));
            case STEPPED_BACK -> slice(base, Arrays.stream(dims).map(d -> Math.max(0, 2 * d - 1)).toArray(),
                    filled(n, -2));
            case COLUMNS -> {
                long[] steps = filled(n, 1);
                steps[n - 1] = 2;
                long[] starts = new long[n];
                starts[n - 1] = 1;
                yield slice(base, starts, steps);
            }
            case INNER -> slice(base, filled(n, 2), filled(n, 1));
            case FLIPPED -> base.flip(n - 1);
            case REVERSED -> base.flip(IntStream.range(0, n).toArray());
            case REPEATED, REPEATED_LAST, ONE -> base.expand(dims);
            case DIAGONAL -> base.diagonal(0, 0, n);
        };
    }

    private Tensor slice(Tensor base, long[] starts, long[] steps) {
        return Tensor.compute(new View.Slice(starts, steps, dims), base);
    }

    private static long[] filled(int n, long value) {
        long[] a = new long[n];
        Arrays.fill(a, value);
        return a;
    }

    /** Returns Java code that makes the tensor. */
    String code() {
        StringJoiner elements = new StringJoiner(", ", dtype.isFloating() ? "new double[] {" : "new long[] {", "}");
        boolean same = reals.length > 0 && Arrays.stream(reals).allMatch(r -> Double.compare(r, reals[0]) == 0);
        if (!same) {
            for (double r : reals) {
                elements.add(dtype.isFloating() ? literal(r) : integer(r) + "L");
            }
        }
        String list = Arrays.toString(dims).replaceAll("[\\[\\]]", "");
        String dense = same ? "Tensor.full(DType." + dtype.name() + ", " + literal(reals[0]) + (dims.length == 0 ? ""
                : ", " + list) + ")"
                : "Tensor.of(" + elements + ").reshape(" + list + ")"
                + (dtype == DType.F64 || dtype == DType.I64 ? "" : ".to(DType." + dtype.name() + ")");
        return layout == Layout.DENSE ? dense : "Operand.laidOut(" + dense + ", Operand.Layout." + layout + ")";
    }

    /** Returns a tensor with the elements of {@code dense} in another layout, for printed snippets. */
    static Tensor laidOut(Tensor dense, Layout layout) {
        return new Operand(dense.dtype(), dense.shape().dims(), layout, Snapshot.of(dense).reals())
                .on(dense.device());
    }

    static String literal(double r) {
        return Double.isNaN(r) ? "Double.NaN" : r == Double.POSITIVE_INFINITY ? "Double.POSITIVE_INFINITY"
                : r == Double.NEGATIVE_INFINITY ? "Double.NEGATIVE_INFINITY" : Double.toString(r);
    }
}
