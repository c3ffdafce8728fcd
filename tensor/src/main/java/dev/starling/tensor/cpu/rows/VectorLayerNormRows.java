package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;
import static dev.starling.tensor.host.HostMemory.ALL;
import static jdk.incubator.vector.FloatVector.fromMemorySegment;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorSpecies;

/**
 * Layer normalisation with the Vector API: columns in lanes, the last ones masked. Structured like
 * {@link VectorSoftmaxRows}, for the same reasons.
 */
final class VectorLayerNormRows implements LayerNormRows {
    static final LayerNormRows LOOPS = new VectorLayerNormRows();
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    @Override
    public void normalize(long x, long y, int rows, int columns, long gamma, long beta, double epsilon, long mean,
            long inverse) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float near = VectorPasses.sum(x, columns, 0) / columns;
            double m = Float.isFinite(near) ? near + (double) VectorPasses.sum(x, columns, near) / columns : near;
            double inv = 1 / Math.sqrt((double) squares(x, columns, (float) m) / columns + epsilon);
            affine(x, y, columns, (float) m, (float) inv, gamma, beta);
            set(mean, r, m);
            set(inverse, r, inv);
        }
    }

    private static float squares(long x, int columns, float mean) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector d = fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(mean);
            sum = d.fma(d, sum);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector d = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(mean);
            sum = sum.add(d.mul(d), m);
        }
        return LaneSum.of(sum);
    }

    private static void affine(long x, long y, int columns, float mean, float inverse, long gamma, long beta) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * c, ORDER);
            FloatVector b = fromMemorySegment(S, ALL, beta + 4L * c, ORDER);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(mean).mul(inverse);
            n.fma(a, b).intoMemorySegment(ALL, y + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * full, ORDER, m);
            FloatVector b = fromMemorySegment(S, ALL, beta + 4L * full, ORDER, m);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(mean).mul(inverse);
            n.fma(a, b).intoMemorySegment(ALL, y + 4L * full, ORDER, m);
        }
    }

    @Override
    public void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse,
            long dgamma, long dbeta) {
        for (int r = 0; r < rows; r++, g += 4L * columns, x += 4L * columns, dx += 4L * columns) {
            float m = get(mean, r);
            float inv = get(inverse, r);
            float sum = VectorPasses.dot(g, gamma, columns) / columns;
            float product = product(g, x, gamma, columns, m) * inv / columns;
            gradientRow(g, x, dx, columns, gamma, m, inv, sum, product);
            accumulate(g, x, columns, m, inv, dgamma, dbeta);
        }
    }

    private static float product(long g, long x, long gamma, int columns, float mean) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector d = fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(mean);
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * c, ORDER);
            sum = fromMemorySegment(S, ALL, g + 4L * c, ORDER).mul(a).fma(d, sum);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector d = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(mean);
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * full, ORDER, m);
            sum = sum.add(fromMemorySegment(S, ALL, g + 4L * full, ORDER, m).mul(a).mul(d), m);
        }
        return LaneSum.of(sum);
    }

    private static void gradientRow(long g, long x, long dx, int columns, long gamma, float mean, float inverse,
            float sum, float product) {
        FloatVector slope = FloatVector.broadcast(S, -product);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * c, ORDER);
            FloatVector h = fromMemorySegment(S, ALL, g + 4L * c, ORDER).mul(a).sub(sum);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(mean).mul(inverse);
            n.fma(slope, h).mul(inverse).intoMemorySegment(ALL, dx + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector a = fromMemorySegment(S, ALL, gamma + 4L * full, ORDER, m);
            FloatVector h = fromMemorySegment(S, ALL, g + 4L * full, ORDER, m).mul(a).sub(sum);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(mean).mul(inverse);
            n.fma(slope, h).mul(inverse).intoMemorySegment(ALL, dx + 4L * full, ORDER, m);
        }
    }

    private static void accumulate(long g, long x, int columns, float mean, float inverse, long dgamma, long dbeta) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * c, ORDER);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(mean).mul(inverse);
            n.fma(v, fromMemorySegment(S, ALL, dgamma + 4L * c, ORDER)).intoMemorySegment(ALL, dgamma + 4L * c, ORDER);
            fromMemorySegment(S, ALL, dbeta + 4L * c, ORDER).add(v).intoMemorySegment(ALL, dbeta + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, g + 4L * full, ORDER, m);
            FloatVector n = fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(mean).mul(inverse);
            FloatVector a = fromMemorySegment(S, ALL, dgamma + 4L * full, ORDER, m);
            FloatVector b = fromMemorySegment(S, ALL, dbeta + 4L * full, ORDER, m);
            n.fma(v, a).intoMemorySegment(ALL, dgamma + 4L * full, ORDER, m);
            b.add(v).intoMemorySegment(ALL, dbeta + 4L * full, ORDER, m);
        }
    }
}
