package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Selection;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * Kernels that read or write one element per index, for types of 4 and 8 bytes. Operand and index are
 * {@code [outer, n, inner]} and agree in all sizes except {@code n}.
 */
final class GatherKernels {
    private static final long GRAIN = 1 << 13;

    private GatherKernels() {
    }

    /** Returns the result, or {@code null} if there is no kernel for these types and shapes. */
    static Tensor @Nullable [] gather(Selection.Gather op, Tensor operand, Tensor index, Spec output) {
        int axis = op.axis();
        int bytes = operand.dtype().bytes();
        if (bytes < 4 || !agree(operand.shape(), index.shape(), axis)) {
            return null;
        }
        Tensor places = Layout.dense(index);
        Indices indices = Indices.checked(op, places, operand.size(axis), operand, index);
        Tensor x = Layout.dense(operand);
        Tensor y = Storage.allocate(output);
        long inner = output.shape().slice(axis + 1, output.shape().rank()).count();
        long block = output.shape().dim(axis) * inner;
        long size = x.size(axis);
        long from = x.address();
        long to = y.address();
        Parallel.forRange(y.count(), GRAIN, (first, end) -> {
            long base = first / block * size;
            long rest = block - first % block;
            long column = first % inner;
            for (long i = first; i < end; i++) {
                long j = (base + indices.get(i)) * inner + column;
                column = column + 1 == inner ? 0 : column + 1;
                if (--rest == 0) {
                    rest = block;
                    base += size;
                }
                if (bytes == 4) {
                    int v = ALL.get(ValueLayout.JAVA_INT_UNALIGNED, from + 4 * j);
                    ALL.set(ValueLayout.JAVA_INT_UNALIGNED, to + 4 * i, v);
                } else {
                    long v = ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, from + 8 * j);
                    ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, to + 8 * i, v);
                }
            }
        });
        Layout.release(places, index);
        Layout.release(x, operand);
        return new Tensor[] {y};
    }

    /**
     * Scatters or adds. One thread processes each outer part, in the order of the index. Returns {@code null} if there
     * is no kernel for these types and shapes.
     */
    static Tensor @Nullable [] scatter(Selection op, int axis, Tensor[] in, Spec output) {
        boolean add = op instanceof Selection.ScatterAdd;
        DType dtype = output.dtype();
        if (dtype.bytes() < 4 || add && dtype == DType.I32 || in[1].count() == 0
                || !agree(in[0].shape(), in[1].shape(), axis)) {
            return null;
        }
        Tensor places = Layout.dense(in[1]);
        Indices indices = Indices.checked(op, places, in[0].size(axis), in);
        Tensor source = Layout.dense(in[2]);
        Tensor y = Storage.allocate(output);
        CopyKernels.copy(in[0], y);
        long inner = output.shape().slice(axis + 1, output.shape().rank()).count();
        long block = source.size(axis) * inner;
        long size = y.size(axis);
        long from = source.address();
        long to = y.address();
        Parallel.forRange(source.count() / block, Math.max(1, GRAIN / block), (first, end) -> {
            for (long o = first; o < end; o++) {
                long column = 0;
                for (long i = o * block; i < (o + 1) * block; i++) {
                    long j = (o * size + indices.get(i)) * inner + column;
                    column = column + 1 == inner ? 0 : column + 1;
                    put(dtype, add, from + dtype.bytes() * i, to + dtype.bytes() * j);
                }
            }
        });
        Layout.release(places, in[1]);
        Layout.release(source, in[2]);
        return new Tensor[] {y};
    }

    private static void put(DType dtype, boolean add, long from, long to) {
        if (dtype == DType.F32) {
            float v = getFloat(from);
            float sum = add ? getFloat(to) + v : v;
            putFloat(to, sum);
        } else if (dtype == DType.F64) {
            double v = ALL.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, from);
            double sum = add ? ALL.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, to) + v : v;
            ALL.set(ValueLayout.JAVA_DOUBLE_UNALIGNED, to, sum);
        } else if (dtype == DType.I64) {
            long v = ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, from);
            long sum = add ? ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, to) + v : v;
            ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, to, sum);
        } else {
            ALL.set(ValueLayout.JAVA_INT_UNALIGNED, to, ALL.get(ValueLayout.JAVA_INT_UNALIGNED, from));
        }
    }

    private static boolean agree(Shape operand, Shape index, int axis) {
        for (int i = 0; i < operand.rank(); i++) {
            if (i != axis && operand.dim(i) != index.dim(i)) {
                return false;
            }
        }
        return true;
    }
}
