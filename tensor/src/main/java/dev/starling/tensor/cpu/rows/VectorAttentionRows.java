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
    public float exponentials(long scores, int n, float scale, long mask, float shift) {
        return mask == 0 ? exponentials(scores, n, scale, shift)
                : exponentialsMasked(scores, n, scale, mask, shift);
    }

    private static float exponentials(long scores, int n, float scale, float shift) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * c, ORDER).mul(scale).sub(shift);
            e = VectorExp.exp(e);
            sum = sum.add(e);
            e.intoMemorySegment(ALL, scores + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * full, ORDER, m).mul(scale).sub(shift);
            e = VectorExp.exp(e);
            sum = sum.add(e, m);
            e.intoMemorySegment(ALL, scores + 4L * full, ORDER, m);
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
            FloatVector e = fromMemorySegment(S, ALL, scores + 4L * full, ORDER, m);
            e = VectorExp.exp(e.fma(factor, fromMemorySegment(S, ALL, mask + 4L * full, ORDER, m)).sub(shift));
            sum = sum.add(e, m);
            e.intoMemorySegment(ALL, scores + 4L * full, ORDER, m);
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
    public void scoreGradient(long weights, long slopes, int n, float shift, float scale) {
        int full = S.loopBound(n);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * c, ORDER).sub(shift).mul(scale);
            v = v.mul(fromMemorySegment(S, ALL, weights + 4L * c, ORDER));
            v.intoMemorySegment(ALL, slopes + 4L * c, ORDER);
        }
        if (full < n) {
            VectorMask<Float> m = S.indexInRange(full, n);
            FloatVector v = fromMemorySegment(S, ALL, slopes + 4L * full, ORDER, m).sub(shift).mul(scale);
            v = v.mul(fromMemorySegment(S, ALL, weights + 4L * full, ORDER, m));
            v.intoMemorySegment(ALL, slopes + 4L * full, ORDER, m);
        }
    }
}
