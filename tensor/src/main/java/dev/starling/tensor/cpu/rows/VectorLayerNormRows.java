package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorSpecies;

/** Layer normalisation with the Vector API: one method per way over a row, for the compiler's sake. */
final class VectorLayerNormRows implements LayerNormRows {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private static FloatVector load(long row, int column, VectorMask<Float> mask) {
        return FloatVector.fromMemorySegment(S, ALL, row + 4L * column, ORDER, mask);
    }

    private static void store(FloatVector v, long row, int column, VectorMask<Float> mask) {
        v.intoMemorySegment(ALL, row + 4L * column, ORDER, mask);
    }

    private static float get(long row, int column) {
        return ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, row + 4L * column);
    }

    private static void set(long row, int column, double value) {
        ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, row + 4L * column, (float) value);
    }

    @Override
    public void normalize(long x, long y, int rows, int columns, long gamma, long beta, double epsilon, long mean,
            long inverse) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float near = sum(x, columns, 0) / columns;
            double m = Float.isFinite(near) ? near + (double) sum(x, columns, near) / columns : near;
            double inv = 1 / Math.sqrt((double) squares(x, columns, (float) m) / columns + epsilon);
            affine(x, y, columns, (float) m, (float) inv, gamma, beta);
            set(mean, r, m);
            set(inverse, r, inv);
        }
    }

    private static float sum(long x, int columns, float minus) {
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            sum = sum.add(load(x, c, m).sub(minus), m);
        }
        return LaneSum.of(sum);
    }

    private static float squares(long x, int columns, float mean) {
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector d = load(x, c, m).sub(mean);
            sum = sum.add(d.mul(d), m);
        }
        return LaneSum.of(sum);
    }

    private static void affine(long x, long y, int columns, float mean, float inverse, long gamma, long beta) {
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            store(load(x, c, m).sub(mean).mul(inverse).fma(load(gamma, c, m), load(beta, c, m)), y, c, m);
        }
    }

    @Override
    public void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse,
            long dgamma, long dbeta) {
        for (int r = 0; r < rows; r++, g += 4L * columns, x += 4L * columns, dx += 4L * columns) {
            float m = get(mean, r);
            float inv = get(inverse, r);
            float sum = dot(g, gamma, columns) / columns;
            float product = product(g, x, gamma, columns, m) * inv / columns;
            tilt(g, x, dx, columns, gamma, m, inv, sum, product);
            accumulate(g, x, columns, m, inv, dgamma, dbeta);
        }
    }

    private static float dot(long a, long b, int columns) {
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            sum = load(a, c, m).fma(load(b, c, m), sum);
        }
        return LaneSum.of(sum);
    }

    private static float product(long g, long x, long gamma, int columns, float mean) {
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            sum = load(g, c, m).mul(load(gamma, c, m)).fma(load(x, c, m).sub(mean), sum);
        }
        return LaneSum.of(sum);
    }

    private static void tilt(long g, long x, long dx, int columns, long gamma, float mean, float inverse, float sum,
            float product) {
        FloatVector slope = FloatVector.broadcast(S, -product);
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector h = load(g, c, m).mul(load(gamma, c, m)).sub(sum);
            store(load(x, c, m).sub(mean).mul(inverse).fma(slope, h).mul(inverse), dx, c, m);
        }
    }

    private static void accumulate(long g, long x, int columns, float mean, float inverse, long dgamma, long dbeta) {
        for (int c = 0; c < columns; c += LANES) {
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector v = load(g, c, m);
            store(load(x, c, m).sub(mean).mul(inverse).fma(v, load(dgamma, c, m)), dgamma, c, m);
            store(load(dbeta, c, m).add(v), dbeta, c, m);
        }
    }
}
