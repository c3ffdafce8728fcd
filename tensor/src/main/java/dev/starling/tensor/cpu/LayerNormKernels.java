package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.LayerNormRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.spi.Block;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of layer normalisation on f32. Gradients of gamma and beta are summed in f32 within blocks of rows and in f64
 * over blocks, in a fixed order.
 */
final class LayerNormKernels {
    private static final int ROWS = 64;
    private static final long GRAIN = 1 << 15;

    private LayerNormKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Normalization op, Tensor[] inputs, Spec[] outputs) {
        return run(op, inputs, outputs, RowLoops.FASTEST.layerNorm());
    }

    static Tensor @Nullable [] run(Normalization op, Tensor[] inputs, Spec[] outputs, LayerNormRows rows) {
        Tensor[] dense = new Tensor[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i].dtype() != DType.F32 || inputs[i].count() == 0) {
                return null;
            }
        }
        for (int i = 0; i < inputs.length; i++) {
            dense[i] = Layout.dense(inputs[i]);
        }
        try {
            Tensor[] results = allocate(outputs);
            work(op, dense, results, rows).run();
            return results;
        } finally {
            for (int i = 0; i < inputs.length; i++) {
                Layout.release(dense[i], inputs[i]);
            }
        }
    }

    /** Prepares what {@link #run} does; {@code null} if an operand has to be copied. */
    static @Nullable Runnable prepare(Normalization op, Tensor[] in, Tensor[] results) {
        for (Tensor x : in) {
            if (x.dtype() != DType.F32 || x.count() == 0 || !x.isContiguous()) {
                return null;
            }
        }
        return work(op, in, results, RowLoops.FASTEST.layerNorm());
    }

    private static Runnable work(Normalization op, Tensor[] in, Tensor[] results, LayerNormRows rows) {
        return switch (op) {
            case Normalization.LayerNorm o -> forward(o, in, results, rows);
            case Normalization.LayerNormGradient _ -> new Backward(in, results, rows);
            case Normalization.BatchNorm _, Normalization.BatchNormGradient _ ->
                throw new IllegalArgumentException(op.name() + " is no layer norm");
        };
    }

    private static Tensor[] allocate(Spec[] outputs) {
        return new Tensor[] {Storage.allocate(outputs[0]), Storage.allocate(outputs[1]), Storage.allocate(outputs[2])};
    }

    private static Runnable forward(Normalization.LayerNorm op, Tensor[] in, Tensor[] results, LayerNormRows rows) {
        int columns = Math.toIntExact(in[1].count());
        long n = in[0].count() / columns;
        long x = in[0].address();
        long gamma = in[1].address();
        long beta = in[2].address();
        long y = results[0].address();
        long mean = results[1].address();
        long inverse = results[2].address();
        return new RangeWork(n, Math.max(1, GRAIN / columns)) {
            @Override
            public void run(long from, long to) {
                long at = 4 * from * columns;
                rows.normalize(x + at, y + at, Math.toIntExact(to - from), columns, gamma, beta, op.epsilon(),
                        mean + 4 * from, inverse + 4 * from);
            }
        };
    }

    /** The backward pass. */
    private static final class Backward implements Runnable, RangeTask {
        private final long g;
        private final long x;
        private final long gamma;
        private final long mean;
        private final long inverse;
        private final long dx;
        private final long dgamma;
        private final long dbeta;
        private final LayerNormRows rows;
        private final int columns;
        private final long n;
        private final long blocks;
        /** The address of the sums of blocks during a run. */
        private long sums;

        Backward(Tensor[] in, Tensor[] results, LayerNormRows rows) {
            g = in[0].address();
            x = in[1].address();
            gamma = in[2].address();
            mean = in[3].address();
            inverse = in[4].address();
            dx = results[0].address();
            dgamma = results[1].address();
            dbeta = results[2].address();
            this.rows = rows;
            columns = Math.toIntExact(in[2].count());
            n = in[0].count() / columns;
            blocks = Math.ceilDiv(n, (long) ROWS);
        }

        @Override
        public void run() {
            Block scratch = HostAllocator.shared().allocate(8L * columns * blocks);
            try {
                sums = scratch.address();
                Parallel.forRange(blocks, Math.max(1, GRAIN / ((long) ROWS * columns)), this);
                total(sums, Math.toIntExact(blocks), columns, dgamma);
                total(sums + 4L * columns, Math.toIntExact(blocks), columns, dbeta);
            } finally {
                HostAllocator.shared().free(scratch);
            }
        }

        @Override
        public void run(long from, long to) {
            ALL.asSlice(sums + 8 * from * columns, 8 * (to - from) * columns).fill((byte) 0);
            for (long b = from; b < to; b++) {
                long first = b * ROWS;
                long at = 4 * first * columns;
                long own = sums + 8 * b * columns;
                rows.gradient(g + at, x + at, dx + at, (int) Math.min(ROWS, n - first), columns, gamma,
                        mean + 4 * first, inverse + 4 * first, own, own + 4L * columns);
            }
        }
    }

    private static void total(long sums, int blocks, int columns, long to) {
        for (int c = 0; c < columns; c++) {
            double total = 0;
            for (int b = 0; b < blocks; b++) {
                total += getFloat(sums + 4 * (2L * b * columns + c));
            }
            putFloat(to + 4L * c, (float) total);
        }
    }
}
