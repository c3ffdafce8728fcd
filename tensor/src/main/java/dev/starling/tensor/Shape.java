package dev.starling.tensor;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The sizes of a tensor's dimensions, outermost first. Immutable; a scalar has rank 0 and one element. */
public final class Shape {
    /** The largest rank that a tensor can have. */
    public static final int MAX_RANK = 16;
    /**
     * The largest number of elements, with empty dimensions counted as 1, so that sizes in bytes and strides fit a
     * long.
     */
    private static final long MAX_COUNT = Long.MAX_VALUE >> 4;
    private static final Shape SCALAR = new Shape(new long[0]);
    private static final int HASH_BITS = 10;
    /** The last shape of each hash: the operations of a training step make few different shapes. */
    private static final @Nullable Shape[] KNOWN = new Shape[1 << HASH_BITS];

    private final long[] dims;
    private final long count;
    private final long[] strides;
    /** The last strides of a tensor of this shape that is not row-major. */
    private volatile long @Nullable [] otherStrides;
    /** The spec that was made last. */
    private @Nullable Spec spec;

    private Shape(long[] dims) {
        for (long d : dims) {
            if (d < 0) {
                throw TensorException.argument("shape", "sizes must be >= 0, got " + Arrays.toString(dims),
                        "give sizes of 0 or more");
            }
        }
        requireRank(dims.length);
        this.dims = dims;
        strides = new long[dims.length];
        long n = 1;
        for (int i = dims.length - 1; i >= 0; i--) {
            strides[i] = n;
            long size = Math.max(dims[i], 1);
            if (size > MAX_COUNT / n) {
                throw TensorException.argument("shape", Arrays.toString(dims) + " has more than " + MAX_COUNT
                        + " elements", "give smaller sizes");
            }
            n *= size;
        }
        for (long d : dims) {
            n = d == 0 ? 0 : n;
        }
        count = n;
    }

    /**
     * Makes a shape.
     *
     * @throws TensorException if a size is negative, the size in bytes could overflow, or the rank exceeds
     *     {@link #MAX_RANK}
     */
    public static Shape of(long... dims) {
        return of(dims, dims.length);
    }

    /** Makes a shape of the first {@code rank} of these sizes. The array may be changed afterwards. */
    private static Shape of(long[] dims, int rank) {
        if (rank == 0) {
            return SCALAR;
        }
        int slot = slot(dims, rank);
        Shape known = KNOWN[slot];
        if (known != null && known.dims.length == rank && Arrays.equals(known.dims, 0, rank, dims, 0, rank)) {
            return known;
        }
        Shape made = new Shape(Arrays.copyOf(dims, rank));
        KNOWN[slot] = made;
        return made;
    }

    /** Returns the upper bits of a multiplicative hash. */
    private static int slot(long[] dims, int rank) {
        long hash = rank;
        for (int i = 0; i < rank; i++) {
            hash = (hash ^ dims[i]) * 0x9E37_79B9_7F4A_7C15L;
        }
        return (int) (hash >>> Long.SIZE - HASH_BITS);
    }

    /** Returns an array of the thread for the sizes of a shape, valid until the next call. */
    private static long[] scratch(int rank) {
        requireRank(rank);
        return ThreadState.current().dims;
    }

    private static void requireRank(int rank) {
        if (rank > MAX_RANK) {
            throw TensorException.argument("shape", "rank must be <= " + MAX_RANK + ", got " + rank,
                    "merge dimensions with reshape");
        }
    }

    /** Returns the shape of a scalar. */
    public static Shape scalar() {
        return SCALAR;
    }

    /** Returns the number of dimensions. */
    public int rank() {
        return dims.length;
    }

    /** Returns the size of dimension {@code axis}; negative counts from the end. */
    public long dim(int axis) {
        return dims[axis(axis)];
    }

    /** Returns the number of elements. */
    public long count() {
        return count;
    }

    /** Returns the sizes as a new array. */
    public long[] dims() {
        return dims.clone();
    }

    /** Returns {@code axis} counted from the front, checked against the rank. */
    public int axis(int axis) {
        int a = axis < 0 ? axis + dims.length : axis;
        if (a < 0 || a >= dims.length) {
            throw TensorException.argument("shape", "axis " + axis + " is not in " + this, "use -rank <= axis < rank");
        }
        return a;
    }

    /** Returns a copy of the strides, in elements, of a row-major tensor of this shape. */
    public long[] contiguousStrides() {
        return strides.clone();
    }

    /** Returns {@link #contiguousStrides} without a copy, for backends. The array must not be changed. */
    public long[] sharedStrides() {
        return strides;
    }

    /** Returns an array of these strides that only tensors have, so that the caller cannot change theirs. */
    long[] ownStrides(long[] of) {
        if (Arrays.equals(of, strides)) {
            return strides;
        }
        long[] last = otherStrides;
        if (last == null || !Arrays.equals(of, last)) {
            last = of.clone();
            otherStrides = last;
        }
        return last;
    }

    /** Returns the spec of a tensor of this shape, without making one if it is the same as the last. */
    Spec spec(DType dtype, Device device) {
        Spec last = spec;
        if (last == null || last.dtype() != dtype || last.device() != device) {
            last = new Spec(dtype, this, device);
            spec = last;
        }
        return last;
    }

    /** Returns this shape with dimension {@code axis} replaced by {@code size}. */
    public Shape with(int axis, long size) {
        int a = axis(axis);
        long[] d = scratch(dims.length);
        System.arraycopy(dims, 0, d, 0, dims.length);
        d[a] = size;
        return of(d, dims.length);
    }

    /** Returns this shape without dimension {@code axis}. */
    public Shape without(int axis) {
        int a = axis(axis);
        long[] d = scratch(dims.length - 1);
        System.arraycopy(dims, 0, d, 0, a);
        System.arraycopy(dims, a + 1, d, a, dims.length - 1 - a);
        return of(d, dims.length - 1);
    }

    /** Returns this shape with a dimension of {@code size} inserted before {@code axis}. */
    public Shape insert(int axis, long size) {
        int a = axis < 0 ? axis + dims.length + 1 : axis;
        if (a < 0 || a > dims.length) {
            throw TensorException.argument("shape", "axis " + axis + " must be from " + (-dims.length - 1) + " to "
                    + dims.length + " to insert a dimension into " + this, "change the axis");
        }
        long[] d = scratch(dims.length + 1);
        System.arraycopy(dims, 0, d, 0, a);
        d[a] = size;
        System.arraycopy(dims, a, d, a + 1, dims.length - a);
        return of(d, dims.length + 1);
    }

    /** Returns the dimensions from {@code from} (inclusive) to {@code to} (exclusive). */
    public Shape slice(int from, int to) {
        if (from < 0 || to < from || to > dims.length) {
            throw TensorException.argument("shape", "0 <= from <= to <= rank must hold, got " + from + " to " + to
                    + " of " + this, "change the bounds");
        }
        long[] d = scratch(to - from);
        System.arraycopy(dims, from, d, 0, to - from);
        return of(d, to - from);
    }

    /** Returns this shape followed by {@code other}. */
    public Shape concat(Shape other) {
        int rank = dims.length + other.dims.length;
        long[] d = scratch(rank);
        System.arraycopy(dims, 0, d, 0, dims.length);
        System.arraycopy(other.dims, 0, d, dims.length, other.dims.length);
        return of(d, rank);
    }

    /**
     * Returns this shape with its dimensions in another order: dimension {@code i} of the result is dimension
     * {@code order[i]} of this shape.
     *
     * @param order a permutation of the dimensions
     */
    public Shape permute(int... order) {
        long[] d = scratch(order.length);
        for (int i = 0; i < order.length; i++) {
            d[i] = dim(order[i]);
        }
        return of(d, order.length);
    }

    /** Returns the shape to which both broadcast by NumPy's rules, or {@code null} if there is none. */
    public static @Nullable Shape broadcast(Shape a, Shape b) {
        if (a == b || a.equals(b)) {
            return a;
        }
        int rank = Math.max(a.rank(), b.rank());
        long[] d = scratch(rank);
        for (int i = 0; i < rank; i++) {
            int ia = i - rank + a.rank();
            int ib = i - rank + b.rank();
            long da = ia < 0 ? 1 : a.dims[ia];
            long db = ib < 0 ? 1 : b.dims[ib];
            if (da != db && da != 1 && db != 1) {
                return null;
            }
            d[i] = da == 1 ? db : da;
        }
        return of(d, rank);
    }

    @Override
    public boolean equals(@Nullable Object o) {
        return this == o || o instanceof Shape s && Arrays.equals(dims, s.dims);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(dims);
    }

    /** Returns the sizes in brackets, for example {@code [2, 3]}. */
    @Override
    public String toString() {
        return Arrays.toString(dims);
    }
}
