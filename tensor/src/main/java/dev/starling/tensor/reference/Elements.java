package dev.starling.tensor.reference;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;

/**
 * The elements of a tensor in host memory, numbered in row-major order whatever the strides. Reads and writes convert
 * between the tensor's type and {@code double} or, exactly for integers, {@code long}.
 */
final class Elements {
    private final DType dtype;
    private final long address;
    private final long[] sizes;
    /** Distances between neighbours in elements. */
    private final long[] strides;
    private final boolean dense;

    private Elements(DType dtype, long address, long[] sizes, long[] strides) {
        this.dtype = dtype;
        this.address = address;
        this.sizes = sizes;
        this.strides = strides;
        long expected = 1;
        boolean gapless = true;
        for (int i = sizes.length - 1; i >= 0; i--) {
            gapless &= sizes[i] == 1 || strides[i] == expected;
            expected *= sizes[i];
        }
        dense = gapless;
    }

    static Elements of(Tensor tensor) {
        return new Elements(tensor.dtype(), tensor.address(), tensor.shape().dims(), tensor.sharedStrides());
    }

    /** Returns the elements of a tensor that is broadcast to {@code shape}. */
    static Elements of(Tensor tensor, Shape shape) {
        long[] strides = new long[shape.rank()];
        int lead = shape.rank() - tensor.rank();
        for (int i = 0; i < tensor.rank(); i++) {
            strides[lead + i] = tensor.size(i) == shape.dim(lead + i) ? tensor.stride(i) : 0;
        }
        return new Elements(tensor.dtype(), tensor.address(), shape.dims(), strides);
    }

    /** Returns the same elements, numbered with dimension {@code order[i]} as the {@code i}-th. */
    Elements permuted(int... order) {
        long[] permutedSizes = new long[order.length];
        long[] permutedStrides = new long[order.length];
        for (int i = 0; i < order.length; i++) {
            permutedSizes[i] = sizes[order[i]];
            permutedStrides[i] = strides[order[i]];
        }
        return new Elements(dtype, address, permutedSizes, permutedStrides);
    }

    /**
     * Returns the same elements, numbered with dimension {@code axis} as the last, so that each line is consecutive.
     */
    Elements alongLast(int axis) {
        int[] order = new int[sizes.length];
        for (int i = 0; i < order.length; i++) {
            order[i] = i < axis ? i : i + 1;
        }
        order[order.length - 1] = axis;
        return permuted(order);
    }

    boolean floating() {
        return dtype.isFloating();
    }

    boolean bool() {
        return dtype == DType.BOOL;
    }

    long count() {
        long n = 1;
        for (long size : sizes) {
            n *= size;
        }
        return n;
    }

    double get(long i) {
        return HostMemory.getDouble(dtype, at(i));
    }

    long getLong(long i) {
        return HostMemory.getLong(dtype, at(i));
    }

    void set(long i, double value) {
        HostMemory.putDouble(dtype, at(i), value);
    }

    void setLong(long i, long value) {
        HostMemory.putLong(dtype, at(i), value);
    }

    /** Returns all elements, of which there may be as many as an array can have. */
    double[] getAll() {
        double[] values = new double[Math.toIntExact(count())];
        for (int i = 0; i < values.length; i++) {
            values[i] = get(i);
        }
        return values;
    }

    /** Sets all elements, converting as {@code Cast} does. */
    void setAll(double[] values) {
        for (int i = 0; i < values.length; i++) {
            set(i, values[i]);
        }
    }

    /** Sets element {@code i} to element {@code j} of {@code source}, converting as {@code Cast} does. */
    void copy(long i, Elements source, long j) {
        if (source.floating()) {
            set(i, source.get(j));
        } else {
            setLong(i, source.getLong(j));
        }
    }

    private long at(long i) {
        if (dense) {
            return address + i * dtype.bytes();
        }
        long offset = 0;
        long rest = i;
        for (int d = sizes.length - 1; d >= 0; d--) {
            offset += rest % sizes[d] * strides[d];
            rest /= sizes[d];
        }
        return address + offset * dtype.bytes();
    }
}
