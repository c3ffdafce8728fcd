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
 */
final class VectorAttentionRows implements AttentionRows {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    @Override
    public float max(long scores, int n, float scale, long mask) {
        return mask == 0 ? max(scores, n, scale) : maxMasked(scores, n, scale, mask);
    }

    private static float max(long scores, int n, float scale) {
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(scale);
            best = best.blend(v, v.compare(VectorOperators.GT, best));
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * full, ORDER, m).mul(scale);
            best = best.blend(v, v.compare(VectorOperators.GT, best, m));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    private static float maxMasked(long scores, int n, float scale, long mask) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector best = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * c, ORDER);
            v = v.fma(factor, fromMemorySegment(S, ALL, mask + 4L * c, ORDER));
            best = best.blend(v, v.compare(VectorOperators.GT, best));
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector v = fromMemorySegment(S, ALL, scores + 4L * full, ORDER, m);
            v = v.fma(factor, fromMemorySegment(S, ALL, mask + 4L * full, ORDER, m));
            best = best.blend(v, v.compare(VectorOperators.GT, best, m));
        }
        return best.reduceLanes(VectorOperators.MAX);
    }

    @Override
    public float exponentials(long scores, int n, int end, float scale, long mask, float shift) {
        float sum = mask == 0 ? exponentials(scores, n, scale, shift)
                : exponentialsMasked(scores, n, scale, mask, shift);
        clear(scores, n + LANES - 1 & -LANES, end);
        return sum;
    }

    private static float exponentials(long scores, int n, float scale, float shift) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector minus = FloatVector.broadcast(S, -shift);
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).fma(factor, minus));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        if (full < n) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * full, ORDER).fma(factor, minus));
            e = FloatVector.zero(S).blend(e, S.indexInRange(full, n));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * full, ORDER);
        }
        return LaneSum.of(sum);
    }

    private static float exponentialsMasked(long scores, int n, float scale, long mask, float shift) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * c, ORDER);
            e = VectorExp.exp(e.fma(factor, fromMemorySegment(S, ALL, mask + 4L * c, ORDER)).sub(shift));
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * full, ORDER);
            e = VectorExp.exp(e.fma(factor, fromMemorySegment(S, ALL, mask + 4L * full, ORDER, m)).sub(shift));
            e = FloatVector.zero(S).blend(e, m);
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * full, ORDER);
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
    public void gradients(long scores, long slopes, int n, int end, float scale, long mask, float log, float dot) {
        if (mask == 0) {
            gradients(scores, slopes, n, scale, log, dot);
        } else {
            gradientsMasked(scores, slopes, n, scale, mask, log, dot);
        }
        int padded = n + LANES - 1 & -LANES;
        clear(scores, padded, end);
        clear(slopes, padded, end);
    }

    private static void gradients(long scores, long slopes, int n, float scale, float log, float dot) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        FloatVector minus = FloatVector.broadcast(S, -log);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * c, ORDER).fma(factor, minus));
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * c, ORDER).sub(dot).mul(factor).mul(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
            v.intoMemorySegment(ALL, slopes + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector zero = FloatVector.zero(S);
            FloatVector e = VectorExp.exp(fromMemorySegment(S, ALL, scores + 4L * full, ORDER).fma(factor, minus));
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * full, ORDER).sub(dot).mul(factor).mul(e);
            zero.blend(e, m).intoMemorySegment(ALL, scores + 4L * full, ORDER);
            zero.blend(v, m).intoMemorySegment(ALL, slopes + 4L * full, ORDER);
        }
    }

    private static void gradientsMasked(long scores, long slopes, int n, float scale, long mask, float log,
            float dot) {
        FloatVector factor = FloatVector.broadcast(S, scale);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * c, ORDER);
            e = VectorExp.exp(e.fma(factor, fromMemorySegment(S, ALL, mask + 4L * c, ORDER)).sub(log));
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * c, ORDER).sub(dot).mul(factor).mul(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
            v.intoMemorySegment(ALL, slopes + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector zero = FloatVector.zero(S);
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * full, ORDER);
            e = VectorExp.exp(e.fma(factor, fromMemorySegment(S, ALL, mask + 4L * full, ORDER, m)).sub(log));
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * full, ORDER).sub(dot).mul(factor).mul(e);
            zero.blend(e, m).intoMemorySegment(ALL, scores + 4L * full, ORDER);
            zero.blend(v, m).intoMemorySegment(ALL, slopes + 4L * full, ORDER);
        }
    }

    @Override
    public void clear(long x, int n) {
        FloatVector zero = FloatVector.zero(S);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            zero.intoMemorySegment(ALL, x + 4L * c, ORDER);
        }
        if (full < n) {
            zero.intoMemorySegment(ALL, x + 4L * full, ORDER, S.indexInRange(full, n));
        }
    }

    /** Clears whole vectors from {@code from} on until all elements before {@code end} are clear. */
    private static void clear(long x, int from, int end) {
        for (int c = from; c < end; c += LANES) {
            FloatVector.zero(S).intoMemorySegment(ALL, x + 4L * c, ORDER);
        }
    }
}
