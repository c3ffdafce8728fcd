package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** Attention's rows in plain Java. */
final class ScalarAttentionRows implements AttentionRows {
    private static float score(long scores, int i, float scale, long mask) {
        return mask == 0 ? get(scores, i) * scale : Math.fma(get(scores, i), scale, get(mask, i));
    }

    @Override
    public float max(long scores, int n, float scale, long mask) {
        float max = Float.NEGATIVE_INFINITY;
        for (int i = 0; i < n; i++) {
            float v = score(scores, i, scale, mask);
            max = v > max ? v : max;
        }
        return max;
    }

    @Override
    public float exponentials(long scores, int n, float scale, long mask, float shift) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            float e = ScalarExp.exp(score(scores, i, scale, mask) - shift);
            set(scores, i, e);
            sum += e;
        }
        return (float) sum;
    }

    @Override
    public void scale(long x, int n, float by) {
        for (int i = 0; i < n; i++) {
            set(x, i, get(x, i) * by);
        }
    }

    @Override
    public float dot(long a, long b, int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += (double) get(a, i) * get(b, i);
        }
        return (float) sum;
    }

    @Override
    public void scoreGradient(long weights, long slopes, int n, float shift, float scale) {
        for (int i = 0; i < n; i++) {
            set(slopes, i, get(weights, i) * ((get(slopes, i) - shift) * scale));
        }
    }
}
