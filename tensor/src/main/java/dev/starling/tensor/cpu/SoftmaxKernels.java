package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.SoftmaxRows;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Softmax;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Softmax} operations on f32: rows of a layout in which the softmax dimension is innermost. */
final class SoftmaxKernels {
    private static final long GRAIN = 1 << 14;

    private SoftmaxKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Softmax op, Tensor[] inputs, Spec output) {
        return run(op, inputs, output, RowLoops.FASTEST.softmax());
    }

    static Tensor @Nullable [] run(Softmax op, Tensor[] inputs, Spec output, SoftmaxRows rows) {
        Tensor x = inputs[0];
        Tensor last = inputs[inputs.length - 1];
        if (x.dtype() != DType.F32 || x.count() == 0 || !last.spec().equals(x.spec())) {
            return null;
        }
        long[] strides = Layout.innermost(x.shape(), op.axis());
        Tensor a = Layout.of(x, strides);
        Tensor b = last == x ? a : Layout.of(last, strides);
        try {
            Tensor y = Storage.allocate(output, strides);
            rows(op, a, b, y, rows).run();
            return new Tensor[] {y};
        } finally {
            Layout.release(a, x);
            if (last != x) {
                Layout.release(b, last);
            }
        }
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called. */
    static @Nullable Runnable prepare(Softmax op, Tensor[] inputs, Tensor y) {
        Tensor x = inputs[0];
        Tensor last = inputs[inputs.length - 1];
        if (x.dtype() != DType.F32 || x.count() == 0 || !last.spec().equals(x.spec())) {
            return null;
        }
        long[] strides = Layout.innermost(x.shape(), op.axis());
        return Layout.holds(x, strides) && Layout.holds(last, strides)
                ? rows(op, x, last, y, RowLoops.FASTEST.softmax()) : null;
    }

    private static Runnable rows(Softmax op, Tensor left, Tensor right, Tensor result, SoftmaxRows rows) {
        int columns = Math.toIntExact(left.size(op.axis()));
        long count = left.count() / columns;
        long a = left.address();
        long b = right.address();
        long y = result.address();
        return new RangeWork(count, grain(columns)) {
            @Override
            public void run(long from, long to) {
                int n = Math.toIntExact(to - from);
                long at = 4 * from * columns;
                switch (op) {
                    case Softmax.Exponentials _ -> rows.softmax(a + at, y + at, n, columns);
                    case Softmax.Logarithms _ -> rows.logSoftmax(a + at, y + at, n, columns);
                    case Softmax.ExponentialsGradient _ -> rows.softmaxGradient(a + at, b + at, y + at, n, columns);
                    case Softmax.LogarithmsGradient _ -> rows.logSoftmaxGradient(a + at, b + at, y + at, n, columns);
                }
            }
        };
    }

    static long grain(int columns) {
        return Math.max(1, GRAIN / columns);
    }
}
