package dev.starling.tensor;

import dev.starling.tensor.op.Fill;
import java.util.List;

/** Factories of tensors from sizes and numbers, in addition to those of {@link Tensor}. */
public final class Creation {
    private Creation() {
    }

    /** Returns a tensor whose elements all equal {@code value}. */
    public static Tensor full(Spec spec, double value) {
        return Tensor.compute(new Fill.Full(spec, value));
    }

    /** Returns {@code start + i·step} for each index {@code i} of a spec of rank 1. */
    public static Tensor arange(Spec spec, double start, double step) {
        return Tensor.compute(new Fill.Range(spec, start, step));
    }

    /** Returns the i64 numbers from 0 to {@code n - 1}, on the current device. */
    public static Tensor arange(long n) {
        return arange(new Spec(DType.I64, Shape.of(n), Device.current()), 0, 1);
    }

    /**
     * Returns the f32 numbers {@code start, start + step, ..} below {@code stop} (above it if the step is negative), on
     * the current device.
     */
    public static Tensor arange(double start, double stop, double step) {
        if (step == 0 || !Double.isFinite((stop - start) / step)) {
            throw TensorException.argument("arange", "the step must not be 0 and the ends must be finite, got " + start
                    + " to " + stop + " by " + step, "change the step or the ends");
        }
        long n = (long) Math.max(0, Math.ceil((stop - start) / step));
        return arange(new Spec(DType.F32, Shape.of(n), Device.current()), start, step);
    }

    /**
     * Returns {@code count} as an array length, after a check that Java can allocate that many elements of {@code
     * bytes} each.
     */
    static int arrayLength(String op, long count, int bytes) {
        if (count > Integer.MAX_VALUE - 8 || count * bytes > Runtime.getRuntime().maxMemory()) {
            throw new TensorException(TensorException.Problem.MEMORY, op, List.of(), "an array of " + count
                    + " elements does not fit into Java's heap", "use fewer, or give the JVM more memory (-Xmx)");
        }
        return (int) count;
    }

    /**
     * Returns {@code n} evenly spaced f32 numbers from {@code first} to {@code last}, both included, on the current
     * device. A single number is {@code first}.
     */
    public static Tensor linspace(double first, double last, long n) {
        if (!Double.isFinite(last - first)) {
            throw TensorException.argument("linspace", "the ends must be finite, got " + first + " and " + last,
                    "give finite numbers");
        }
        return arange(new Spec(DType.F32, Shape.of(n), Device.current()), first, n > 1 ? (last - first) / (n - 1) : 0);
    }

    /** Returns the f32 identity matrix of {@code n} rows, on the current device. */
    public static Tensor eye(long n) {
        return arange(n).oneHot(n).to(DType.F32);
    }
}
