package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;
import static jdk.incubator.vector.FloatVector.fromMemorySegment;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorSpecies;

/** Passes over a row that several functions of rows need; {@link VectorSoftmaxRows} gives the reason for their form. */
final class VectorPasses {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private VectorPasses() { }

    /** Returns the sum of {@code x - minus}. */
    static float sum(long x, int columns, float minus) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            sum = sum.add(fromMemorySegment(S, ALL, x + 4L * c, ORDER).sub(minus));
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            sum = sum.add(fromMemorySegment(S, ALL, x + 4L * full, ORDER, m).sub(minus), m);
        }
        return LaneSum.of(sum);
    }

    /** Returns Σ a·b. */
    static float dot(long a, long b, int columns) {
        FloatVector sum = FloatVector.zero(S);
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            FloatVector v = fromMemorySegment(S, ALL, a + 4L * c, ORDER);
            sum = v.fma(fromMemorySegment(S, ALL, b + 4L * c, ORDER), sum);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, a + 4L * full, ORDER, m);
            sum = v.fma(fromMemorySegment(S, ALL, b + 4L * full, ORDER, m), sum);
        }
        return LaneSum.of(sum);
    }

    /** Multiplies by a factor. */
    static void scale(long y, int columns, float by) {
        int full = S.loopBound(columns);
        for (int c = 0; c < full; c += LANES) {
            fromMemorySegment(S, ALL, y + 4L * c, ORDER).mul(by).intoMemorySegment(ALL, y + 4L * c, ORDER);
        }
        if (full < columns) {
            VectorMask<Float> m = S.indexInRange(full, columns);
            FloatVector v = fromMemorySegment(S, ALL, y + 4L * full, ORDER, m);
            v.mul(by).intoMemorySegment(ALL, y + 4L * full, ORDER, m);
        }
    }
}
