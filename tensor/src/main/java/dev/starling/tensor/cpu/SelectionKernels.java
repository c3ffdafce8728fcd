package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Selection;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Selection} operations. All indices are checked before anything is written. */
final class SelectionKernels {
    private static final long GRAIN = 1 << 15;

    private SelectionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Selection op, Tensor[] inputs, Spec output) {
        if (output.shape().count() == 0) {
            return null;
        }
        return switch (op) {
            case Selection.Take o -> take(o, inputs[0], inputs[1], output);
            case Selection.TakeGradient o when output.dtype() == DType.F32 ->
                    takeGradient(o, inputs[0], inputs[1], output);
            case Selection.TakeGradient _, Selection.Nonzero _ -> null;
            case Selection.Gather o -> GatherKernels.gather(o, inputs[0], inputs[1], output);
            case Selection.Scatter o -> GatherKernels.scatter(o, o.axis(), inputs, output);
            case Selection.ScatterAdd o -> GatherKernels.scatter(o, o.axis(), inputs, output);
        };
    }

    private static Tensor[] take(Selection.Take op, Tensor operand, Tensor index, Spec output) {
        Tensor places = Layout.dense(index);
        Indices indices = Indices.checked(op, places, operand.size(op.axis()), operand, index);
        Tensor x = Layout.dense(operand);
        Tensor y = Storage.allocate(output);
        long bytes = x.shape().slice(op.axis() + 1, x.rank()).count() * x.dtype().bytes();
        long size = x.size(op.axis());
        long from = x.address();
        long to = y.address();
        long n = indices.count();
        long rows = x.shape().slice(0, op.axis()).count() * n;
        Parallel.forRange(rows, Math.max(1, 4 * GRAIN / (bytes + 16)), (first, end) -> {
            for (long row = first; row < end; row++) {
                long source = from + (row / n * size + indices.get(row % n)) * bytes;
                copy(source, to + row * bytes, bytes);
            }
        });
        Layout.release(places, index);
        Layout.release(x, operand);
        return new Tensor[] {y};
    }

    private static void copy(long from, long to, long bytes) {
        if (bytes == 4) {
            ALL.set(ValueLayout.JAVA_INT_UNALIGNED, to, ALL.get(ValueLayout.JAVA_INT_UNALIGNED, from));
        } else if (bytes == 8) {
            ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, to, ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, from));
        } else {
            MemorySegment.copy(ALL, from, ALL, to, bytes);
        }
    }

    /** One thread computes each part of the result, and goes through all indices in their order. */
    private static Tensor[] takeGradient(Selection.TakeGradient op, Tensor gradient, Tensor index, Spec output) {
        Tensor places = Layout.dense(index);
        Indices indices = Indices.checked(op, places, op.size(), gradient, index);
        Tensor g = Layout.dense(gradient);
        Tensor y = Storage.allocate(output);
        int columns = Math.toIntExact(output.shape().slice(op.axis() + 1, output.shape().rank()).count());
        long outer = output.shape().slice(0, op.axis()).count();
        long from = g.address();
        long to = y.address();
        Parallel.forRange(outer * op.size(), Math.max(1, GRAIN / columns), (first, end) -> {
            ALL.asSlice(to + 4 * first * columns, 4 * (end - first) * columns).fill((byte) 0);
            for (long o = first / op.size(); o * op.size() < end; o++) {
                add(indices, from + 4 * o * indices.count() * columns, to + 4 * o * op.size() * columns, columns,
                        first - o * op.size(), end - o * op.size());
            }
        });
        Layout.release(places, index);
        Layout.release(g, gradient);
        return new Tensor[] {y};
    }

    private static void add(Indices indices, long g, long y, int columns, long first, long end) {
        for (long j = 0; j < indices.count(); j++) {
            long k = indices.get(j);
            if (k >= first && k < end) {
                RowLoops.FASTEST.matrix().columnSums(g + 4 * j * columns, 0, 1, columns, y + 4 * k * columns);
            }
        }
    }
}
