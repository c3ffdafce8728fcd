package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Softmax and its kin with the Vector API: columns in lanes, the last ones masked. */
final class VectorSoftmaxRows implements SoftmaxRows {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private static FloatVector load(long row, int column) {
        return FloatVector.fromMemorySegment(S, ALL, row + 4L * column, ORDER);
    }

    private static FloatVector load(long row, int column, VectorMask<Float> mask) {
        return FloatVector.fromMemorySegment(S, ALL, row + 4L * column, ORDER, mask);
    }

    private static void store(FloatVector v, long row, int column) {
        v.intoMemorySegment(ALL, row + 4L * column, ORDER);
    }

    private static void store(FloatVector v, long row, int column, VectorMask<Float> mask) {
        v.intoMemorySegment(ALL, row + 4L * column, ORDER, mask);
    }

    @Override
    public void softmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            exponentials(x, y, columns);
        }
    }

    private static void exponentials(long x, long y, int columns) {
        int full = S.loopBound(columns);
        VectorMask<Float> m = S.indexInRange(full, columns);
        float greatest = greatest(x, full, m);
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = VectorExp.exp(load(x, c).sub(greatest));
            sum = sum.add(e);
            store(e, y, c);
        }
        FloatVector last = sum;
        if (full < columns) {
            last = VectorExp.exp(load(x, full, m).sub(greatest));
            sum = sum.add(last, m);
        }
        float scale = 1 / LaneSum.of(sum);
        for (int c = 0; c < full; c += LANES) {
            store(load(y, c).mul(scale), y, c);
        }
        if (full < columns) {
            store(last.mul(scale), y, full, m);
        }
    }

    @Override
    public void logSoftmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            logarithms(x, y, columns);
        }
    }

    private static void logarithms(long x, long y, int columns) {
        int full = S.loopBound(columns);
        VectorMask<Float> m = S.indexInRange(full, columns);
        float greatest = greatest(x, full, m);
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < full; c += LANES) {
            sum = sum.add(VectorExp.exp(load(x, c).sub(greatest)));
        }
        if (full < columns) {
            sum = sum.add(VectorExp.exp(load(x, full, m).sub(greatest)), m);
        }
        float log = (float) Math.log(LaneSum.of(sum));
        for (int c = 0; c < full; c += LANES) {
            store(load(x, c).sub(greatest).sub(log), y, c);
        }
        if (full < columns) {
            store(load(x, full, m).sub(greatest).sub(log), y, full, m);
        }
    }

    private static float greatest(long x, int full, VectorMask<Float> m) {
        FloatVector least = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        FloatVector greatest = least.blend(load(x, full, m), m);
        for (int c = 0; c < full; c += LANES) {
            greatest = greatest.max(load(x, c));
        }
        return greatest.reduceLanes(VectorOperators.MAX);
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        int full = S.loopBound(columns);
        VectorMask<Float> m = S.indexInRange(full, columns);
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            FloatVector sums = FloatVector.zero(S);
            for (int c = 0; c < full; c += LANES) {
                sums = load(y, c).fma(load(g, c), sums);
            }
            if (full < columns) {
                sums = load(y, full, m).fma(load(g, full, m), sums);
            }
            float dot = LaneSum.of(sums);
            for (int c = 0; c < full; c += LANES) {
                store(load(g, c).sub(dot).mul(load(y, c)), dx, c);
            }
            if (full < columns) {
                store(load(g, full, m).sub(dot).mul(load(y, full, m)), dx, full, m);
            }
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        int full = S.loopBound(columns);
        VectorMask<Float> m = S.indexInRange(full, columns);
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            FloatVector sums = FloatVector.zero(S);
            for (int c = 0; c < full; c += LANES) {
                sums = sums.add(load(g, c));
            }
            if (full < columns) {
                sums = sums.add(load(g, full, m));
            }
            FloatVector negative = FloatVector.broadcast(S, -LaneSum.of(sums));
            for (int c = 0; c < full; c += LANES) {
                store(VectorExp.exp(load(y, c)).fma(negative, load(g, c)), dx, c);
            }
            if (full < columns) {
                store(VectorExp.exp(load(y, full, m)).fma(negative, load(g, full, m)), dx, full, m);
            }
        }
    }

    @Override
    public void expGradient(long y, float shift, long scale, long scaleStride, long dx, int rows, int columns) {
        int full = S.loopBound(columns);
        VectorMask<Float> m = S.indexInRange(full, columns);
        for (int r = 0; r < rows; r++, y += 4L * columns, scale += scaleStride, dx += 4L * columns) {
            float by = ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, scale);
            for (int c = 0; c < full; c += LANES) {
                store(VectorExp.exp(load(y, c)).sub(shift).mul(by), dx, c);
            }
            if (full < columns) {
                store(VectorExp.exp(load(y, full, m)).sub(shift).mul(by), dx, full, m);
            }
        }
    }
}
