package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;
import static dev.starling.tensor.op.scalar.Scalar.operand;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization.BatchNorm;
import dev.starling.tensor.op.Normalization.BatchNormGradient;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import dev.starling.tensor.spi.Block;
import java.util.Arrays;

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

    private BatchNormKernels() {
    }

    private static Formula gradient(Scalar g) {
        return Formula.of(g.fma(operand(2), operand(1).fma(operand(3), operand(4))));
    }

    /** Makes a tensor of one value per channel, which broadcasts to {@code x}. */
    private static Tensor perChannel(Tensor x) {
        long[] dims = new long[x.rank()];
        Arrays.fill(dims, 1);
        dims[1] = x.size(1);
        return Storage.allocate(x.spec().with(Shape.of(dims)));
    }

    static Tensor[] forward(BatchNorm op, Tensor[] in, Spec[] outputs) {
        Tensor x = CopyKernels.channelsLast(in[0]);
        Tensor weight = Layout.dense(in[1]);
        Tensor bias = Layout.dense(in[2]);
        long gamma = weight.address();
        long beta = bias.address();
        Tensor y = Storage.allocate(outputs[0], x.strides());
        Tensor mean = Storage.allocate(outputs[1]);
        Tensor inverse = Storage.allocate(outputs[2]);
        int c = Math.toIntExact(x.size(1));
        long n = x.count() / c;
        Block scratch = HostAllocator.shared().allocate(8L * c * blocks(n));
        try (Tensor scale = perChannel(x); Tensor shift = perChannel(x)) {
            long sums = scratch.address();
            moments(x.address(), n, c, sums);
            for (int i = 0; i < c; i++) {
                double s = total(sums, n, 2 * c, i) / n;
                double variance = Math.max(total(sums, n, 2 * c, c + i) / n - s * s, 0);
                variance = Double.isNaN(s) ? Double.NaN : variance;
                double m = getFloat(x.address() + 4L * i) + s;
                double inv = 1 / Math.sqrt(variance + op.epsilon());
                putFloat(mean.address() + 4L * i, (float) m);
                putFloat(inverse.address() + 4L * i, (float) inv);
                double a = getFloat(gamma + 4L * i) * inv;
                putFloat(scale.address() + 4L * i, (float) a);
                putFloat(shift.address() + 4L * i, (float) (getFloat(beta + 4L * i) - m * a));
            }
            ElementwiseKernels.compute(op.epilogue() == Epilogue.RELU ? RECTIFIED : RESULT, y, x, scale, shift);
        } finally {
            HostAllocator.shared().free(scratch);
            Layout.release(x, in[0]);
            Layout.release(weight, in[1]);
            Layout.release(bias, in[2]);
        }
        return new Tensor[] {y, mean, inverse};
    }

    private interface BlockTask {
        /** Processes {@code rows} pixels, the first of which is {@code at} bytes after the first of all. */
        void run(long block, long at, int rows);
    }

    private static void forEachBlock(long n, int c, BlockTask task) {
        Parallel.forRange(blocks(n), Math.max(1, 65536L / ((long) ROWS * c)), (from, to) -> {
            for (long b = from; b < to; b++) {
                task.run(b, 4 * b * ROWS * c, (int) Math.min(ROWS, n - b * ROWS));
            }
        });
    }

    private static void moments(long x, long n, int c, long sums) {
        forEachBlock(n, c, (block, at, rows) -> {
            long sum = sums + 8 * block * c;
            ALL.asSlice(sum, 8L * c).fill((byte) 0);
            RowLoops.FASTEST.matrix().moments(x + at, 4L * c, rows, c, x, sum, sum + 4L * c);
        });
    }

    static Tensor[] backward(BatchNormGradient op, Tensor[] in, Spec[] outputs) {
        Tensor g = CopyKernels.channelsLast(in[0]);
        Tensor x = CopyKernels.channelsLast(in[1]);
        Tensor weight = Layout.dense(in[2]);
        Tensor rectified = op.epilogue() == Epilogue.RELU ? CopyKernels.channelsLast(in[3]) : in[3];
        Tensor means = Layout.dense(in[4]);
        Tensor inverses = Layout.dense(in[5]);
        long gamma = weight.address();
        long y = op.epilogue() == Epilogue.RELU ? rectified.address() : 0;
        long mean = means.address();
        long inverse = inverses.address();
        Tensor dx = Storage.allocate(outputs[0], x.strides());
        Tensor dgamma = Storage.allocate(outputs[1]);
        Tensor dbeta = Storage.allocate(outputs[2]);
        int c = Math.toIntExact(x.size(1));
        long n = x.count() / c;
        Block scratch = HostAllocator.shared().allocate(8L * c * blocks(n));
        try (Tensor slopes = perChannel(x); Tensor tilts = perChannel(x); Tensor shifts = perChannel(x)) {
            long sums = scratch.address();
            gradientMoments(g.address(), x.address(), y, n, c, mean, sums);
            for (int i = 0; i < c; i++) {
                double sum = total(sums, n, 2 * c, i);
                double inv = getFloat(inverse + 4L * i);
                double product = total(sums, n, 2 * c, c + i) * inv;
                putFloat(dbeta.address() + 4L * i, (float) sum);
                putFloat(dgamma.address() + 4L * i, (float) product);
                double slope = getFloat(gamma + 4L * i) * inv;
                double tilt = -slope * inv * product / n;
                double shift = -slope * sum / n - tilt * getFloat(mean + 4L * i);
                putFloat(slopes.address() + 4L * i, (float) slope);
                putFloat(tilts.address() + 4L * i, (float) tilt);
                putFloat(shifts.address() + 4L * i, (float) shift);
            }
            if (y == 0) {
                ElementwiseKernels.compute(GRADIENT, dx, g, x, slopes, tilts, shifts);
            } else {
                ElementwiseKernels.compute(RECTIFIED_GRADIENT, dx, g, x, slopes, tilts, shifts, rectified);
            }
        } finally {
            HostAllocator.shared().free(scratch);
            Layout.release(g, in[0]);
            Layout.release(x, in[1]);
            Layout.release(weight, in[2]);
            Layout.release(rectified, in[3]);
            Layout.release(means, in[4]);
            Layout.release(inverses, in[5]);
        }
        return new Tensor[] {dx, dgamma, dbeta};
    }

    private static void gradientMoments(long g, long x, long y, long n, int c, long mean, long sums) {
        forEachBlock(n, c, (block, at, rows) -> {
            long sum = sums + 8 * block * c;
            ALL.asSlice(sum, 8L * c).fill((byte) 0);
            RowLoops.FASTEST.matrix().gradientMoments(g + at, x + at, y == 0 ? 0 : y + at, 4L * c, rows, c, mean, sum,
                    sum + 4L * c);
        });
    }

    private static long blocks(long n) {
        return Math.ceilDiv(n, (long) ROWS);
    }

    private static double total(long sums, long n, int width, int column) {
        double total = 0;
        for (long b = 0; b < blocks(n); b++) {
            total += getFloat(sums + 4 * (b * width + column));
        }
        return total;
    }
}
