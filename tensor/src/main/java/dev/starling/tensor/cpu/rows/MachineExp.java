package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.RowLoop;

/** eˣ in machine code, with the constants and steps of {@link ScalarExp}, and its bits. */
final class MachineExp {
    private MachineExp() {
    }

    /** Returns eˣ within two units in the last place; 0 below -87.33, infinity above 88.37. */
    static int of(RowLoop.Builder b, int x) {
        int rounder = b.constant(ScalarExp.ROUNDER);
        int shifted = b.fma(x, b.constant(ScalarExp.LOG2_E), rounder);
        int n = b.sub(shifted, rounder);
        int r = b.fma(n, b.constant(-ScalarExp.LN2_HIGH), x);
        r = b.fma(n, b.constant(-ScalarExp.LN2_LOW), r);
        int p = b.constant(0.00019845886f);
        for (float c : new float[] {0.001394072f, 0.00833339f, 0.04166636f, 0.16666666f, 0.5f}) {
            p = b.fma(p, r, b.constant(c));
        }
        p = b.add(b.fma(p, b.mul(r, r), r), b.constant(1));
        int low = b.constant(ScalarExp.LEAST);
        int high = b.constant(ScalarExp.GREATEST);
        int power = b.ifLess(high, x, b.constant(Double.POSITIVE_INFINITY), b.mul(p, b.powerOfTwo(shifted)));
        return b.ifLess(x, low, b.constant(0), power);
    }
}
