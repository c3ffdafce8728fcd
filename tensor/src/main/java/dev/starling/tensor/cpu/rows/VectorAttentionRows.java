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
 * Attention's row operations with the Vector API, one flat loop per method; {@link VectorSoftmaxRows} gives the reason.
 * Two exponentials in a method are too many already, so that the last vector of a row is filled with scores of -∞.
 */
final class VectorAttentionRows implements AttentionRows {
    static final AttentionRows LOOPS = new VectorAttentionRows();
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    @Override
    public void mask(ScoreBlock scores, float scale, long mask, long maskStep) {
        for (int r = 0; r < scores.rows(); r++) {
            mask(scores.row(r), scores.keys(), scale, mask + 4 * r * maskStep);
        }
    }

    private static void mask(long scores, int n, float scale, long mask) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector m = fromMemorySegment(S, ALL, mask + 4L * c, ORDER);
            fromMemorySegment(S, ALL, scores + 4L * c, ORDER).fma(factor, m)
                    .intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            fromMemorySegment(S, ALL, scores + 4L * full, ORDER)
                    .fma(factor, fromMemorySegment(S, ALL, mask + 4L * full, ORDER, m))
                    .intoMemorySegment(ALL, scores + 4L * full, ORDER);
        }
    }

    /** A score that stands for the least. */
    private static float least(float scale) {
        return scale > 0 ? Float.NEGATIVE_INFINITY : Float.POSITIVE_INFINITY;
    }

    @Override
    public void max(ScoreBlock scores, float scale, long maxima) {
        for (int r = 0; r < scores.rows(); r++) {
            fill(scores.row(r), scores.seen(r), least(scale));
            set(maxima, r, max(scores.row(r), scores.seen(r), scale));
        }
    }

    private static float max(long scores, int n, float scale) {
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        for (int c = 0; c < n; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(scale);
            best = best.blend(v, v.compare(VectorOperators.GT, best));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    @Override
    public void exponentials(ScoreBlock scores, float scale, long shifts, long sums) {
        for (int r = 0; r < scores.rows(); r++) {
            long row = scores.row(r);
            int seen = scores.seen(r);
            fill(row, seen, least(scale));
            clear(row, seen + LANES - 1 & -LANES, scores.keys());
            set(sums, r, exponentials(row, seen, scale, get(shifts, r)));
        }
    }

    private static float exponentials(long scores, int n, float scale, float shift) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector add = FloatVector.broadcast(S, shift);
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < n; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(factor).add(add));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        return LaneSum.of(sum);
    }

    @Override
    public void scale(long x, long step, int rows, int columns, long factors) {
        for (int r = 0; r < rows; r++) {
            VectorPasses.scale(x + 4 * r * step, columns, get(factors, r));
        }
    }

    @Override
    public void dot(long a, long aStep, long b, long bStep, int rows, int columns, long dots) {
        for (int r = 0; r < rows; r++) {
            set(dots, r, VectorPasses.dot(a + 4 * r * aStep, b + 4 * r * bStep, columns));
        }
    }

    @Override
    public void gradients(ScoreBlock scores, long slopes, float scale, long shifts, long dots, float slopeScale) {
        for (int r = 0; r < scores.rows(); r++, slopes += 4L * scores.pitch()) {
            long row = scores.row(r);
            int seen = scores.seen(r);
            gradients(row, slopes, seen, scale, get(shifts, r), get(dots, r), slopeScale);
            clearRest(row, seen, scores.keys());
            clearRest(slopes, seen, scores.keys());
        }
    }

    private static void gradients(long scores, long slopes, int n, float scale, float shift, float dot,
            float slopeScale) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector add = FloatVector.broadcast(S, shift);
        for (int c = 0; c < n; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(factor).add(add));
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
            fromMemorySegment(S, ALL, slopes + 4L * c, ORDER).sub(dot).mul(slopeScale).mul(e)
                    .intoMemorySegment(ALL, slopes + 4L * c, ORDER);
        }
    }

    @Override
    public void clear(long x, int n) {
        clear(x, 0, S.loopBound(n));
        if (S.loopBound(n) < n) {
            FloatVector.zero(S).intoMemorySegment(ALL, x + 4L * S.loopBound(n), ORDER,
                    S.indexInRange(S.loopBound(n), n));
        }
    }

    /** Clears the elements from {@code from} on, in whole vectors, until all elements before {@code end} are clear. */
    private static void clearRest(long x, int from, int end) {
        fill(x, from, 0);
        clear(x, from + LANES - 1 & -LANES, end);
    }

    /** Clears whole vectors from {@code from} on until all elements before {@code end} are clear. */
    private static void clear(long x, int from, int end) {
        for (int c = from; c < end; c += LANES) {
            FloatVector.zero(S).intoMemorySegment(ALL, x + 4L * c, ORDER);
        }
    }

    /** Sets the elements of the last vector that are not among the first {@code n}. */
    private static void fill(long x, int n, float value) {
        int full = S.loopBound(n);
        if (full < n) {
            FloatVector.broadcast(S, value).intoMemorySegment(ALL, x + 4L * full, ORDER,
                    S.indexInRange(full, n).not());
        }
    }
}
