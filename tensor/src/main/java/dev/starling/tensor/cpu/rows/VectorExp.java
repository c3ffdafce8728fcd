package dev.starling.tensor.cpu.rows;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** eˣ lane by lane, with the constants and steps of {@link ScalarExp}. */
final class VectorExp {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;

    private VectorExp() {
    }

    /**
     * Returns eˣ within two units in the last place; 0 below -87.33, infinity above 88.37.
     *
     * <p>With x = n·ln 2 + r it is 2ⁿ times a polynomial, a minimax fit for |r| ≤ ½·ln 2.
     */
    static FloatVector exp(FloatVector x) {
        FloatVector rounder = FloatVector.broadcast(S, ScalarExp.ROUNDER);
        FloatVector shifted = x.fma(FloatVector.broadcast(S, ScalarExp.LOG2_E), rounder);
        FloatVector n = shifted.sub(ScalarExp.ROUNDER);
        FloatVector r = n.fma(FloatVector.broadcast(S, -ScalarExp.LN2_HIGH), x);
        r = n.fma(FloatVector.broadcast(S, -ScalarExp.LN2_LOW), r);
        FloatVector p = FloatVector.broadcast(S, 0.00019845886f);
        p = p.fma(r, FloatVector.broadcast(S, 0.001394072f));
        p = p.fma(r, FloatVector.broadcast(S, 0.00833339f));
        p = p.fma(r, FloatVector.broadcast(S, 0.04166636f));
        p = p.fma(r, FloatVector.broadcast(S, 0.16666666f));
        p = p.fma(r, FloatVector.broadcast(S, 0.5f));
        p = p.fma(r.mul(r), r).add(1);
        FloatVector power = shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).add(0x3f800000)
                .reinterpretAsFloats();
        VectorMask<Float> low = x.compare(VectorOperators.LT, ScalarExp.LEAST);
        VectorMask<Float> high = x.compare(VectorOperators.GT, ScalarExp.GREATEST);
        return p.mul(power).blend(0, low).blend(Float.POSITIVE_INFINITY, high);
    }
}
