package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/** The elements of a dense i64 or i32 tensor as indices into a dimension; negative ones count from its end. */
final class Indices {
    private final Op op;
    private final long address;
    private final boolean wide;
    private final long count;
    private final long size;

    private Indices(Op op, Tensor index, long size) {
        this.op = op;
        address = index.address();
        wide = index.dtype() == DType.I64;
        count = index.count();
        this.size = size;
    }

    /**
     * Returns the indices, after a check that all lie within the dimension.
     *
     * @throws TensorException if one lies outside
     */
    static Indices checked(Op op, Tensor index, long size, Tensor... operands) {
        Indices indices = new Indices(op, index, size);
        for (long i = 0; i < indices.count; i++) {
            long k = indices.raw(i);
            if (k < -size || k >= size) {
                throw new TensorException(TensorException.Problem.INDEX, op.name(),
                        Arrays.stream(operands).map(Tensor::spec).toList(), "index " + k + " at position " + i
                        + " must lie between " + -size + " and " + (size - 1), "correct the index");
            }
        }
        return indices;
    }

    private long raw(long i) {
        return wide ? ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, address + 8 * i)
                : ALL.get(ValueLayout.JAVA_INT_UNALIGNED, address + 4 * i);
    }

    /**
     * Returns index {@code i}, counted from the front.
     *
     * @throws TensorException if another thread has changed it since the check and it lies outside
     */
    long get(long i) {
        long k = raw(i);
        long fromFront = k < 0 ? k + size : k;
        if (fromFront < 0 || fromFront >= size) {
            throw changed(i, k);
        }
        return fromFront;
    }

    private TensorException changed(long i, long k) {
        return new TensorException(TensorException.Problem.INDEX, op.name(), List.of(), "index " + k + " at position "
                + i + " was changed during the operation; it must lie between " + -size + " and " + (size - 1),
                "change the indices before or after the operation, not from another thread meanwhile");
    }

    long count() {
        return count;
    }
}
