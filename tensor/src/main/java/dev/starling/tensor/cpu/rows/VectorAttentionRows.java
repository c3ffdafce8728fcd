package dev.starling.tensor.cpu.rows;

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
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    @Override
    public void mask(long scores, int n, float scale, long mask) {
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

    @Override
    public float max(long scores, int n, float scale) {
        fill(scores, n, scale > 0 ? Float.NEGATIVE_INFINITY : Float.POSITIVE_INFINITY);
        return maxOfVectors(scores, n, scale);
    }

    private static float maxOfVectors(long scores, int n, float scale) {
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        for (int c = 0; c < n; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(scale);
            best = best.blend(v, v.compare(VectorOperators.GT, best));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    @Override
    public float exponentials(long scores, int n, int end, float scale, float shift) {
        fill(scores, n, scale > 0 ? Float.NEGATIVE_INFINITY : Float.POSITIVE_INFINITY);
        clear(scores, n + LANES - 1 & -LANES, end);
        return exponentials(scores, n, scale, shift);
    }

    private static float exponentials(long scores, int n, float scale, float shift) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector minus = FloatVector.broadcast(S, -shift);
        FloatVector sum = FloatVector.zero(S);
        for (int c = 0; c < n; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).fma(factor, minus));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        return LaneSum.of(sum);
    }

    @Override
    public void scale(long x, int n, float by) {
        VectorPasses.scale(x, n, by);
    }

    @Override
    public float dot(long a, long b, int n) {
        return VectorPasses.dot(a, b, n);
    }

    @Override
    public void gradients(long scores, long slopes, int n, int end, float scale, float log, float dot,
            float slopeScale) {
        fill(scores, n, scale > 0 ? Float.NEGATIVE_INFINITY : Float.POSITIVE_INFINITY);
        fill(slopes, n, 0);
        int padded = n + LANES - 1 & -LANES;
        clear(scores, padded, end);
        clear(slopes, padded, end);
        gradients(scores, slopes, n, scale, log, dot, slopeScale);
    }

    private static void gradients(long scores, long slopes, int n, float scale, float log, float dot,
            float slopeScale) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector minus = FloatVector.broadcast(S, -log);
        for (int c = 0; c < n; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).fma(factor, minus));
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
