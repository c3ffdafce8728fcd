package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** Attention's rows in plain Java. */
final class ScalarAttentionRows implements AttentionRows {
    @Override
    public void mask(long scores, int n, float scale, long mask) {
        for (int i = 0; i < n; i++) {
            set(scores, i, Math.fma(get(scores, i), scale, get(mask, i)));
        }
    }

    @Override
    public float max(long scores, int n, float scale) {
        float max = Float.NEGATIVE_INFINITY;
        for (int i = 0; i < n; i++) {
            float v = get(scores, i) * scale;
            max = v > max ? v : max;
        }
        return max;
    }

    @Override
    public float exponentials(long scores, int n, int end, float scale, float shift) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            float e = ScalarExp.exp(Math.fma(get(scores, i), scale, -shift));
            set(scores, i, e);
            sum += e;
        }
        clear(scores + 4L * n, end - n);
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
    public void gradients(long scores, long slopes, int n, int end, float scale, float log, float dot,
            float slopeScale) {
        for (int i = 0; i < n; i++) {
            float weight = ScalarExp.exp(Math.fma(get(scores, i), scale, -log));
            set(scores, i, weight);
            set(slopes, i, weight * ((get(slopes, i) - dot) * slopeScale));
        }
        clear(scores + 4L * n, end - n);
        clear(slopes + 4L * n, end - n);
    }

    @Override
    public void clear(long x, int n) {
        for (int i = 0; i < n; i++) {
            set(x, i, 0f);
        }
    }
}
