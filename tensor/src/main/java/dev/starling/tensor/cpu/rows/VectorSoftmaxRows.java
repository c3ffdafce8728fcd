package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;
import static dev.starling.tensor.host.HostMemory.ALL;
import static jdk.incubator.vector.FloatVector.fromMemorySegment;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Softmax and related functions with the Vector API: columns in lanes, the last ones masked. Each pass over a row is a
 * method with one flat loop, without a mask and without calls of our own methods for loads and stores. Otherwise the
 * compiler, which inlines all passes of a row together, reaches its inlining limits and allocates each vector on the
 * heap, which is some ten times slower.
 */
final class VectorSoftmaxRows implements SoftmaxRows {
    static final SoftmaxRows LOOPS = new VectorSoftmaxRows();
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    @Override
    public void softmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            VectorPasses.scale(y, columns, 1 / exponentials(x, y, columns, max(x, columns)));
        }
    }

    @Override
    public void logSoftmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float max = max(x, columns);
            shift(x, y, columns, max, (float) StrictMath.log(exponentials(x, y, columns, max)));
        }
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            gradientRow(y, g, dx, columns, VectorPasses.dot(y, g, columns));
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            logGradientRow(y, g, dx, columns, sum(g, columns));
        }
    }

    @Override
    public void logSums(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 8) {
            float max = max(x, columns);
            float sum = sumOfExponentials(x, columns, max);
            set(y, 0, Float.isNaN(sum) ? sum : max);
            set(y, 1, StrictMath.log(sum));
        }
    }

    @Override
    public double distances(long x, float max, int columns) {
        return VectorPasses.sum(x, columns, max);
    }

    @Override
    public void expGradient(long x, long logSums, float shift, long scale, long scaleStride, long dx, int rows,
            int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, logSums += 8, scale += scaleStride, dx += 4L * columns) {
            expGradient(x, get(logSums, 0), get(logSums, 1), shift, get(scale, 0), dx, columns);
        }
    }

    /** Returns the largest element that is not NaN; a NaN shows in the sum of exponentials. */
    private static float max(long x, int columns) {
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * c, ORDER);
            best = best.blend(v, v.compare(VectorOperators.GT, best));
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m);
            best = best.blend(v, v.compare(VectorOperators.GT, best, m));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    /** Writes the exponentials and returns their sum. */
    private static float exponentials(long x, long y, int columns, float max) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(max));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, y + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(max));
            sum = sum.add(e, m);
            e.intoMemorySegment(ALL, y + 4L * full, ORDER, m);
        }
        return LaneSum.of(sum);
    }

    private static float sumOfExponentials(long x, int columns, float max) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            sum = sum.add(VectorExp.exp(fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(max)));
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            sum = sum.add(VectorExp.exp(fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(max)), m);
        }
        return LaneSum.of(sum);
    }

    private static void shift(long x, long y, int columns, float max, float log) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * c, ORDER);
            v.sub(max).sub(log).intoMemorySegment(ALL, y + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m);
            v.sub(max).sub(log).intoMemorySegment(ALL, y + 4L * full, ORDER, m);
        }
    }

    private static float sum(long x, int columns) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            sum = sum.add(fromMemorySegment(S, ALL, x + 4L * c, ORDER));
        }
        if (full < columns) {
            sum = sum.add(fromMemorySegment(S, ALL, x + 4L * full, ORDER, S.indexInRange(full, columns)));
        }
        return LaneSum.of(sum);
    }

    private static void gradientRow(long y, long g, long dx, int columns, float dot) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * c, ORDER).sub(dot);
            v.mul(fromMemorySegment(S, ALL, y + 4L * c, ORDER)).intoMemorySegment(ALL, dx + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * full, ORDER, m).sub(dot);
            v = v.mul(fromMemorySegment(S, ALL, y + 4L * full, ORDER, m));
            v.intoMemorySegment(ALL, dx + 4L * full, ORDER, m);
        }
    }

    private static void logGradientRow(long y, long g, long dx, int columns, float sum) {
        FloatVector negative = FloatVector.broadcast(S, -sum);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, y + 4L * c, ORDER));
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * c, ORDER);
            e.fma(negative, v).intoMemorySegment(ALL, dx + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, y + 4L * full, ORDER, m));
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * full, ORDER, m);
            e.fma(negative, v).intoMemorySegment(ALL, dx + 4L * full, ORDER, m);
        }
    }

    private static void expGradient(long x, float max, float log, float shift, float scale, long dx,
            int columns) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * c, ORDER);
            VectorExp.exp(v.sub(max).sub(log)).sub(shift).mul(scale).intoMemorySegment(ALL, dx + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m);
            VectorExp.exp(v.sub(max).sub(log)).sub(shift).mul(scale)
                    .intoMemorySegment(ALL, dx + 4L * full, ORDER, m);
        }
    }
}
