package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The elements of a tensor in row-major order, read by address and strides without any kernel.
 *
 * @param dtype element type
 * @param shape sizes
 * @param bytes the elements
 */
record Snapshot(DType dtype, Shape shape, byte[] bytes) {
    static Snapshot of(Tensor tensor) {
        int n = Math.toIntExact(tensor.count());
        int width = tensor.dtype().bytes();
        byte[] bytes = new byte[n * width];
        MemorySegment target = MemorySegment.ofArray(bytes);
        if (n == 0) {
            return new Snapshot(tensor.dtype(), tensor.shape(), bytes);
        }
        long address = tensor.address();
        if (tensor.isContiguous()) {
            MemorySegment.copy(HostMemory.ALL, address, target, 0, bytes.length);
            return new Snapshot(tensor.dtype(), tensor.shape(), bytes);
        }
        long[] dims = tensor.shape().dims();
        long[] strides = tensor.strides();
        for (int i = 0; i < n; i++) {
            long offset = 0;
            long rest = i;
            for (int d = dims.length - 1; d >= 0; d--) {
                offset += rest % dims[d] * strides[d];
                rest /= dims[d];
            }
            MemorySegment.copy(HostMemory.ALL, address + offset * width, target, (long) i * width, width);
        }
        return new Snapshot(tensor.dtype(), tensor.shape(), bytes);
    }

    /** Returns a row-major tensor with these elements. */
    Tensor on(Device device) {
        return Device.with(device, () -> Tensor.copyOf(MemorySegment.ofArray(bytes), dtype, shape.dims()));
    }

    int count() {
        return bytes.length / dtype.bytes();
    }

    private ByteBuffer buffer() {
        return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
    }

    double[] reals() {
        ByteBuffer b = buffer();
        double[] reals = new double[count()];
        for (int i = 0; i < reals.length; i++) {
            reals[i] = switch (dtype) {
                case F32 -> b.getFloat(4 * i);
                case F64 -> b.getDouble(8 * i);
                case BF16 -> Float.intBitsToFloat(b.getShort(2 * i) << 16);
                case F16 -> Float.float16ToFloat(b.getShort(2 * i));
                case I64, I32, I8, U8, BOOL -> integer(b, i);
            };
        }
        return reals;
    }

    private long integer(ByteBuffer b, int i) {
        return switch (dtype) {
            case I64 -> b.getLong(8 * i);
            case I32 -> b.getInt(4 * i);
            case I8 -> b.get(i);
            default -> b.get(i) & 0xFF;
        };
    }

    /** Returns these elements in f64, each changed by {@code change}, given its value and position. */
    Snapshot changed(Change change) {
        double[] reals = reals();
        ByteBuffer wide = ByteBuffer.allocate(8 * reals.length).order(ByteOrder.nativeOrder());
        for (int i = 0; i < reals.length; i++) {
            wide.putDouble(change.of(reals[i], i));
        }
        return new Snapshot(DType.F64, shape, wide.array());
    }

    /** A function of an element and its position. */
    @FunctionalInterface
    interface Change {
        double of(double value, int place);
    }

    /** Returns the first difference in bits, other than the payload of NaN, or {@code null} if there is none. */
    String differenceInBits(Snapshot other) {
        if (dtype != other.dtype || !shape.equals(other.shape)) {
            return dtype + shape.toString() + " and " + other.dtype + other.shape;
        }
        int at = java.util.Arrays.mismatch(bytes, other.bytes);
        if (at < 0) {
            return null;
        }
        double[] a = reals();
        double[] b = other.reals();
        for (int i = at / dtype.bytes(); i < a.length; i++) {
            boolean same = dtype.isFloating() ? Double.doubleToLongBits(a[i]) == Double.doubleToLongBits(b[i])
                    : integer(buffer(), i) == integer(other.buffer(), i);
            if (!same) {
                return "[" + i + "] " + a[i] + " and " + b[i];
            }
        }
        return null;
    }
}
