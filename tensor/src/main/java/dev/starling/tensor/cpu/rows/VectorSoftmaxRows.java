package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Softmax and its kin with the Vector API: columns in lanes, the last ones masked. One method goes over a row once: the
 * compiler gives up on longer ones, and then makes each vector an object on the heap.
 */
final class VectorSoftmaxRows implements SoftmaxRows {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private static FloatVector load(long row, int column, VectorMask<Float> mask) {
        return FloatVector.fromMemorySegment(S, ALL, row + 4L * column, ORDER, mask);
    }

    private static void store(FloatVector v, long row, int column, VectorMask<Float> mask) {
        v.intoMemorySegment(ALL, row + 4L * column, ORDER, mask);
    }

    @Override
    public void softmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            scale(y, columns, 1 / exponentials(x, y, columns, greatest(x, columns)));
        }
    }

    @Override
    public void logSoftmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float greatest = greatest(x, columns);
            shift(x, y, columns, greatest, (float) Math.log(exponentials(x, y, columns, greatest)));
        }
    }

    /** Returns the greatest element that is not NaN; a NaN shows in the sum of exponentials. */
    private static float greatest(long x, int columns) {
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector v = load(x, c, m);
            best = best.blend(v, v.compare(VectorOperators.GT, best, m));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    /** Writes the exponentials and returns their sum. */
    private static float exponentials(long x, long y, int columns, float greatest) {
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector e = VectorExp.exp(load(x, c, m).sub(greatest));
            sum = sum.add(e, m);
            store(e, y, c, m);
        }
        return LaneSum.of(sum);
    }

    private static void scale(long y, int columns, float by) {
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            store(load(y, c, m).mul(by), y, c, m);
        }
    }

    private static void shift(long x, long y, int columns, float greatest, float log) {
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            store(load(x, c, m).sub(greatest).sub(log), y, c, m);
        }
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            FloatVector sum = FloatVector.zero(S);
            for (int c = 0; c < columns; c += LANES) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                sum = load(y, c, m).fma(load(g, c, m), sum);
            }
            FloatVector dot = FloatVector.broadcast(S, LaneSum.of(sum));
            for (int c = 0; c < columns; c += LANES) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                store(load(g, c, m).sub(dot).mul(load(y, c, m)), dx, c, m);
            }
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            FloatVector sum = FloatVector.zero(S);
            for (int c = 0; c < columns; c += LANES) {
                sum = sum.add(load(g, c, S.indexInRange(c, columns)));
            }
            FloatVector negative = FloatVector.broadcast(S, -LaneSum.of(sum));
            for (int c = 0; c < columns; c += LANES) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                store(VectorExp.exp(load(y, c, m)).fma(negative, load(g, c, m)), dx, c, m);
            }
        }
    }

    @Override
    public void expGradient(long y, float shift, long scale, long scaleStride, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, scale += scaleStride, dx += 4L * columns) {
            float by = ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, scale);
            for (int c = 0; c < columns; c += LANES) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                store(VectorExp.exp(load(y, c, m)).sub(shift).mul(by), dx, c, m);
            }
        }
    }
}
