package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;
import static dev.starling.tensor.op.scalar.Scalar.operand;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Normalization.BatchNorm;
import dev.starling.tensor.op.Normalization.BatchNormGradient;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.ChannelsLast;
import java.lang.foreign.Arena;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Batch normalisation of f32 in the channels-last layout, a matrix of pixels × channels. Statistics sum the distances
 * from the first pixel: in f32 within blocks of rows and in f64 over blocks, in a fixed order.
 */
final class BatchNormKernels {
    private static final int ROWS = 512;
    /** Of x, scale and shift. */
    private static final Scalar AFFINE = operand(0).fma(operand(1), operand(2));
    private static final Formula RESULT = Formula.of(AFFINE);
    private static final Formula RECTIFIED = Formula.of(Scalar.of(Opcode.RELU, AFFINE));
    /** Of y's gradient, x, three values per channel and, with ReLU, y. */
    private static final Formula GRADIENT = gradient(operand(0));
    private static final Formula RECTIFIED_GRADIENT = gradient(
            Scalar.of(Opcode.RELU_GRADIENT, operand(5), operand(0)));

    /** Variances smaller than this, relative to the square of the pivot's distance from the mean, are made again. */
    private static final double ROUGH = 1.0 / 64;

    private BatchNormKernels() {
    }

    private static Formula gradient(Scalar g) {
        return Formula.of(g.fma(operand(2), operand(1).fma(operand(3), operand(4))));
    }

    /** Returns the shape of one value per channel, which broadcasts to that of {@code x}. */
    private static long[] perChannel(Tensor x) {
        long[] dims = new long[x.rank()];
        Arrays.fill(dims, 1);
        dims[1] = x.size(1);
        return dims;
    }

    private static Tensor allocatePerChannel(Tensor x) {
        return Storage.allocate(x.spec().with(Shape.of(perChannel(x))));
    }

    /** Makes a tensor in memory that is freed when nothing refers to it any more. */
    private static Tensor keptPerChannel(Tensor x) {
        return Tensor.wrap(Arena.ofAuto().allocate(4 * x.size(1), Float.BYTES), DType.F32, perChannel(x));
    }

    static Tensor[] forward(BatchNorm op, Tensor[] in, Spec[] outputs) {
        Tensor x = CopyKernels.channelsLast(in[0]);
        Tensor weight = Layout.dense(in[1]);
        Tensor bias = Layout.dense(in[2]);
        Tensor[] results = {Storage.allocate(outputs[0], x.sharedStrides()), Storage.allocate(outputs[1]),
            Storage.allocate(outputs[2])};
        try (Tensor scale = allocatePerChannel(x); Tensor shift = allocatePerChannel(x)) {
            new Forward(op, x, weight, bias, results, scale, shift).run();
        } finally {
            Layout.release(x, in[0]);
            Layout.release(weight, in[1]);
            Layout.release(bias, in[2]);
        }
        return results;
    }

    /** Prepares what {@link #forward} or {@link #backward} does; {@code null} if an operand has to be copied. */
    static @Nullable Runnable prepare(Normalization op, Tensor[] in, Tensor[] results) {
        if (in[0].dtype() != DType.F32 || in[0].count() == 0 || !ChannelsLast.holds(in[0])) {
            return null;
        }
        return switch (op) {
            case BatchNorm b -> in[1].isContiguous() && in[2].isContiguous()
                    ? new Forward(b, in[0], in[1], in[2], results, keptPerChannel(in[0]), keptPerChannel(in[0])) : null;
            case BatchNormGradient b -> ChannelsLast.holds(in[1]) && in[2].isContiguous() && in[4].isContiguous()
                    && in[5].isContiguous() && (b.epilogue() != Epilogue.RELU || ChannelsLast.holds(in[3]))
                    ? new Backward(b, in, results, keptPerChannel(in[1]), keptPerChannel(in[1]),
                            keptPerChannel(in[1])) : null;
            case Normalization.LayerNorm _, Normalization.LayerNormGradient _ -> null;
        };
    }

    /** Sums over blocks of rows of pixels, two for each channel, and what is computed from them. */
    private abstract static class Pass implements Runnable, RangeTask {
        final int c;
        final long n;
        private final long width;
        private final Runnable result;
        private long sums;

        /**
         * Makes a pass.
         *
         * @param result computes the result for the images
         */
        Pass(Tensor x, Runnable result) {
            c = Math.toIntExact(x.size(1));
            n = x.count() / c;
            width = 2L * c;
            this.result = result;
        }

        @Override
        public void run() {
            Block scratch = HostAllocator.shared().allocate(4 * width * blocks(n));
            try {
                sums = scratch.address();
                begin();
                do {
                    Parallel.forRange(blocks(n), Math.max(1, 65536L / ((long) ROWS * c)), this);
                    for (int i = 0; i < c; i++) {
                        channel(i);
                    }
                } while (repeats());
                result.run();
            } finally {
                HostAllocator.shared().free(scratch);
            }
        }

        @Override
        public void run(long from, long to) {
            int count = Math.toIntExact(to - from);
            for (int i = 0; i < count; i++) {
                long b = from + i;
                long sum = sums + 4 * b * width;
                ALL.asSlice(sum, 4 * width).fill((byte) 0);
                moments(4 * b * ROWS * c, (int) Math.min(ROWS, n - b * ROWS), sum, sum + 4L * c);
            }
        }

        /** Returns the sum of a column over all blocks. */
        double total(long column) {
            double total = 0;
            int blocks = Math.toIntExact(blocks(n));
            for (int b = 0; b < blocks; b++) {
                total += getFloat(sums + 4 * (b * width + column));
            }
            return total;
        }

        /** Prepares the first sums. */
        void begin() { }

        /** Returns whether the sums have to be made again, and prepares that. */
        boolean repeats() {
            return false;
        }

        /** Sums over {@code rows} pixels, the first of which is {@code at} bytes after the first of all. */
        abstract void moments(long at, int rows, long first, long second);

        /** Computes what the result needs of a channel. */
        abstract void channel(int i);
    }

    /** The forward pass. */
    private static final class Forward extends Pass {
        private final long x;
        private final long gamma;
        private final long beta;
        private final long mean;
        private final long inverse;
        private final long scale;
        private final long shift;
        private final double epsilon;
        /** The address of what is subtracted from the pixels: the first one, or their mean. */
        private long pivot;
        /** Whether a variance is so much smaller than the distance from pivot to mean that rounding matters. */
        private boolean isRough;

        Forward(BatchNorm op, Tensor in, Tensor weight, Tensor bias, Tensor[] results, Tensor scales, Tensor shifts) {
            super(in, ElementwiseKernels.prepareCompute(op.epilogue() == Epilogue.RELU ? RECTIFIED : RESULT,
                    results[0], in, scales, shifts));
            x = in.address();
            gamma = weight.address();
            beta = bias.address();
            mean = results[1].address();
            inverse = results[2].address();
            scale = scales.address();
            shift = shifts.address();
            epsilon = op.epsilon();
        }

        @Override
        void begin() {
            pivot = x;
            isRough = false;
        }

        @Override
        boolean repeats() {
            boolean again = isRough && pivot == x;
            pivot = mean;
            return again;
        }

        @Override
        void moments(long at, int rows, long first, long second) {
            RowLoops.FASTEST.matrix().moments(x + at, 4L * c, rows, c, pivot, first, second);
        }

        @Override
        void channel(int i) {
            double s = total(i) / n;
            double variance = Math.max(total((long) c + i) / n - s * s, 0);
            variance = Double.isNaN(s) ? Double.NaN : variance;
            isRough |= variance < s * s * ROUGH;
            double m = getFloat(pivot + 4L * i) + s;
            double inv = 1 / Math.sqrt(variance + epsilon);
            putFloat(mean + 4L * i, (float) m);
            putFloat(inverse + 4L * i, (float) inv);
            double a = getFloat(gamma + 4L * i) * inv;
            putFloat(scale + 4L * i, (float) a);
            putFloat(shift + 4L * i, (float) (getFloat(beta + 4L * i) - m * a));
        }
    }

    static Tensor[] backward(BatchNormGradient op, Tensor[] in, Spec[] outputs) {
        Tensor[] near = {CopyKernels.channelsLast(in[0]), CopyKernels.channelsLast(in[1]), Layout.dense(in[2]),
            op.epilogue() == Epilogue.RELU ? CopyKernels.channelsLast(in[3]) : in[3], Layout.dense(in[4]),
            Layout.dense(in[5])};
        Tensor x = near[1];
        Tensor[] results = {Storage.allocate(outputs[0], x.sharedStrides()), Storage.allocate(outputs[1]),
            Storage.allocate(outputs[2])};
        try (Tensor slopes = allocatePerChannel(x); Tensor tilts = allocatePerChannel(x);
                Tensor shifts = allocatePerChannel(x)) {
            new Backward(op, near, results, slopes, tilts, shifts).run();
        } finally {
            for (int i = 0; i < near.length; i++) {
                Layout.release(near[i], in[i]);
            }
        }
        return results;
    }

    /** The backward pass. */
    private static final class Backward extends Pass {
        private final long g;
        private final long x;
        private final long gamma;
        /** The address of the result that ReLU has changed, or 0. */
        private final long y;
        private final long mean;
        private final long inverse;
        private final long dgamma;
        private final long dbeta;
        private final long slope;
        private final long tilt;
        private final long shift;

        Backward(BatchNormGradient op, Tensor[] in, Tensor[] results, Tensor slopes, Tensor tilts, Tensor shifts) {
            super(in[1], op.epilogue() == Epilogue.RELU
                    ? ElementwiseKernels.prepareCompute(RECTIFIED_GRADIENT, results[0], in[0], in[1], slopes, tilts,
                            shifts, in[3])
                    : ElementwiseKernels.prepareCompute(GRADIENT, results[0], in[0], in[1], slopes, tilts, shifts));
            g = in[0].address();
            x = in[1].address();
            gamma = in[2].address();
            y = op.epilogue() == Epilogue.RELU ? in[3].address() : 0;
            mean = in[4].address();
            inverse = in[5].address();
            dgamma = results[1].address();
            dbeta = results[2].address();
            slope = slopes.address();
            tilt = tilts.address();
            shift = shifts.address();
        }

        @Override
        void moments(long at, int rows, long first, long second) {
            RowLoops.FASTEST.matrix().gradientMoments(g + at, x + at, y == 0 ? 0 : y + at, 4L * c, rows, c, mean,
                    first, second);
        }

        @Override
        void channel(int i) {
            double sum = total(i);
            double inv = getFloat(inverse + 4L * i);
            double product = total((long) c + i) * inv;
            putFloat(dbeta + 4L * i, (float) sum);
            putFloat(dgamma + 4L * i, (float) product);
            double a = getFloat(gamma + 4L * i) * inv;
            double b = -a * inv * product / n;
            putFloat(slope + 4L * i, (float) a);
            putFloat(tilt + 4L * i, (float) b);
            putFloat(shift + 4L * i, (float) (-a * sum / n - b * getFloat(mean + 4L * i)));
        }
    }

    private static long blocks(long n) {
        return Math.ceilDiv(n, (long) ROWS);
    }
}
