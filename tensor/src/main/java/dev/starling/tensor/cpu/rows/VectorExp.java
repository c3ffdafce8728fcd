package dev.starling.tensor.cpu.rows;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** eˣ lane by lane. */
final class VectorExp {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final float LOG2_E = 1.44269504f;
    /** ln 2 in two parts, of which the first has trailing zeros: its product with an exponent is exact. */
    private static final float LN2_HIGH = 0.693145752f;
    private static final float LN2_LOW = 1.42860682e-06f;
    /** Adding 1.5·2²³ leaves the nearest integer in the low bits of a float. */
    private static final float ROUNDER = 0x1.8p23f;
    private static final float LEAST = -87.33f;
    private static final float GREATEST = 88.37f;

    private VectorExp() {
    }

    /**
     * Returns eˣ within two units in the last place; 0 below -87.33, infinity above 88.37.
     *
     * <p>With x = n·ln 2 + r it is 2ⁿ times a polynomial, a minimax fit for |r| ≤ ½·ln 2.
     */
    static FloatVector exp(FloatVector x) {
        FloatVector shifted = x.fma(FloatVector.broadcast(S, LOG2_E), FloatVector.broadcast(S, ROUNDER));
        FloatVector n = shifted.sub(ROUNDER);
        FloatVector r = n.fma(FloatVector.broadcast(S, -LN2_HIGH), x);
        r = n.fma(FloatVector.broadcast(S, -LN2_LOW), r);
        FloatVector p = FloatVector.broadcast(S, 0.00019845886f);
        p = p.fma(r, FloatVector.broadcast(S, 0.001394072f));
        p = p.fma(r, FloatVector.broadcast(S, 0.00833339f));
        p = p.fma(r, FloatVector.broadcast(S, 0.04166636f));
        p = p.fma(r, FloatVector.broadcast(S, 0.16666666f));
        p = p.fma(r, FloatVector.broadcast(S, 0.5f));
        p = p.fma(r.mul(r), r).add(1);
        FloatVector power = shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).add(0x3f800000)
                .reinterpretAsFloats();
        VectorMask<Float> low = x.compare(VectorOperators.LT, LEAST);
        VectorMask<Float> high = x.compare(VectorOperators.GT, GREATEST);
        return p.mul(power).blend(0, low).blend(Float.POSITIVE_INFINITY, high);
    }
}
