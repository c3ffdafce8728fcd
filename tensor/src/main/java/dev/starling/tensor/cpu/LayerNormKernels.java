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
            return switch (op) {
                case Normalization.LayerNorm o -> forward(o, dense, outputs, rows);
                case Normalization.LayerNormGradient _ -> backward(dense, outputs, rows);
                case Normalization.BatchNorm _, Normalization.BatchNormGradient _ -> null;
            };
        } finally {
            for (int i = 0; i < inputs.length; i++) {
                Layout.release(dense[i], inputs[i]);
            }
        }
    }

    private static Tensor[] forward(Normalization.LayerNorm op, Tensor[] in, Spec[] outputs, LayerNormRows rows) {
        Tensor[] results = {Storage.allocate(outputs[0]), Storage.allocate(outputs[1]), Storage.allocate(outputs[2])};
        int columns = Math.toIntExact(in[1].count());
        long x = in[0].address();
        long gamma = in[1].address();
        long beta = in[2].address();
        long y = results[0].address();
        long mean = results[1].address();
        long inverse = results[2].address();
        Parallel.forRange(in[0].count() / columns, Math.max(1, GRAIN / columns), (from, to) -> {
            long at = 4 * from * columns;
            rows.normalize(x + at, y + at, (int) (to - from), columns, gamma, beta, op.epsilon(), mean + 4 * from,
                    inverse + 4 * from);
        });
        return results;
    }

    private static Tensor[] backward(Tensor[] in, Spec[] outputs, LayerNormRows rows) {
        Tensor[] results = {Storage.allocate(outputs[0]), Storage.allocate(outputs[1]), Storage.allocate(outputs[2])};
        int columns = Math.toIntExact(in[2].count());
        long n = in[0].count() / columns;
        long blocks = Math.ceilDiv(n, (long) ROWS);
        Block scratch = HostAllocator.shared().allocate(8L * columns * blocks);
        try {
            long sums = scratch.address();
            blocks(in, results[0].address(), n, columns, sums, rows);
            total(sums, blocks, columns, results[1].address());
            total(sums + 4L * columns, blocks, columns, results[2].address());
        } finally {
            HostAllocator.shared().free(scratch);
        }
        return results;
    }

    private static void blocks(Tensor[] in, long dx, long n, int columns, long sums, LayerNormRows rows) {
        long g = in[0].address();
        long x = in[1].address();
        long gamma = in[2].address();
        long mean = in[3].address();
        long inverse = in[4].address();
        Parallel.forRange(Math.ceilDiv(n, (long) ROWS), Math.max(1, GRAIN / ((long) ROWS * columns)), (from, to) -> {
            for (long b = from; b < to; b++) {
                long first = b * ROWS;
                long at = 4 * first * columns;
                long dgamma = sums + 8 * b * columns;
                ALL.asSlice(dgamma, 8L * columns).fill((byte) 0);
                rows.gradient(g + at, x + at, dx + at, (int) Math.min(ROWS, n - first), columns, gamma,
                        mean + 4 * first, inverse + 4 * first, dgamma, dgamma + 4L * columns);
            }
        });
    }

    private static void total(long sums, long blocks, int columns, long to) {
        for (int c = 0; c < columns; c++) {
            double total = 0;
            for (long b = 0; b < blocks; b++) {
                total += getFloat(sums + 4 * (2 * b * columns + c));
            }
            putFloat(to + 4L * c, (float) total);
        }
    }
}
