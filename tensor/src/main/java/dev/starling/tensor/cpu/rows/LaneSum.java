package dev.starling.tensor.cpu.rows;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * Sums a vector's lanes in a fixed order, half by half. {@code reduceLanes(ADD)} does not define the order and changes
 * it once it is compiled, so that two runs would differ in bits.
 */
final class LaneSum {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final VectorShuffle<Float> FAR = rotation(8);
    private static final VectorShuffle<Float> NEAR = rotation(4);
    private static final VectorShuffle<Float> PAIRS = rotation(2);
    private static final VectorShuffle<Float> NEIGHBOURS = rotation(1);

    private LaneSum() {
    }

    private static VectorShuffle<Float> rotation(int by) {
        return VectorShuffle.fromOp(S, i -> i + by & S.length() - 1);
    }

    static float of(FloatVector v) {
        if (S.length() > 16) {
            float sum = 0;
            for (int i = 0; i < S.length(); i++) {
                sum += v.lane(i);
            }
            return sum;
        }
        FloatVector s = v;
        s = S.length() > 8 ? s.add(s.rearrange(FAR)) : s;
        s = S.length() > 4 ? s.add(s.rearrange(NEAR)) : s;
        s = S.length() > 2 ? s.add(s.rearrange(PAIRS)) : s;
        return s.add(s.rearrange(NEIGHBOURS)).lane(0);
    }
}
