package dev.starling.tensor.cpu.rows;

/** eˣ in plain Java, by the steps of {@link VectorExp}, and with the same bits whether interpreted or compiled. */
final class ScalarExp {
    static final float LOG2_E = 1.44269504f;
    /** ln 2 as the sum of two parts. The first has trailing zeros, so that its product with an exponent is exact. */
    static final float LN2_HIGH = 0.693145752f;
    static final float LN2_LOW = 1.42860682e-06f;
    /** Adding 1.5·2²³ leaves the nearest integer in the low bits of a float. */
    static final float ROUNDER = 0x1.8p23f;
    static final float LEAST = -87.33f;
    static final float GREATEST = 88.37f;

    private ScalarExp() {
    }

    /** Returns eˣ within two units in the last place; 0 below -87.33, infinity above 88.37. */
    static float exp(float x) {
        float shifted = Math.fma(x, LOG2_E, ROUNDER);
        float n = shifted - ROUNDER;
        float r = Math.fma(n, -LN2_HIGH, x);
        r = Math.fma(n, -LN2_LOW, r);
        float p = 0.00019845886f;
        p = Math.fma(p, r, 0.001394072f);
        p = Math.fma(p, r, 0.00833339f);
        p = Math.fma(p, r, 0.04166636f);
        p = Math.fma(p, r, 0.16666666f);
        p = Math.fma(p, r, 0.5f);
        p = Math.fma(p, r * r, r) + 1;
        float power = Float.intBitsToFloat((Float.floatToRawIntBits(shifted) << 23) + 0x3f800000);
        return x < LEAST ? 0 : x > GREATEST ? Float.POSITIVE_INFINITY : p * power;
    }
}
