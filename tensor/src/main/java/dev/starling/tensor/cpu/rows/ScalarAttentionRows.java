package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** Attention's rows in plain Java. */
final class ScalarAttentionRows implements AttentionRows {
    static final AttentionRows LOOPS = new ScalarAttentionRows();

    @Override
    public void mask(ScoreBlock scores, float scale, long mask, long maskStep) {
        for (int r = 0; r < scores.rows(); r++, mask += 4 * maskStep) {
            long row = scores.row(r);
            for (int i = 0; i < scores.keys(); i++) {
                set(row, i, Math.fma(get(row, i), scale, get(mask, i)));
            }
        }
    }

    @Override
    public void max(ScoreBlock scores, float scale, long maxima) {
        for (int r = 0; r < scores.rows(); r++) {
            int seen = scores.seen(r);
            float max = Float.NEGATIVE_INFINITY;
            for (int i = 0; i < seen; i++) {
                float v = get(scores.row(r), i) * scale;
                max = v > max ? v : max;
            }
            set(maxima, r, max);
        }
    }

    @Override
    public void exponentials(ScoreBlock scores, float scale, long shifts, long sums) {
        for (int r = 0; r < scores.rows(); r++) {
            long row = scores.row(r);
            int seen = scores.seen(r);
            float shift = get(shifts, r);
            double sum = 0;
            for (int i = 0; i < seen; i++) {
                float e = ScalarExp.exp(get(row, i) * scale + shift);
                set(row, i, e);
                sum += e;
            }
            clear(row + 4L * seen, scores.keys() - seen);
            set(sums, r, sum);
        }
    }

    @Override
    public void scale(long x, long step, int rows, int columns, long factors) {
        for (int r = 0; r < rows; r++, x += 4 * step) {
            for (int i = 0; i < columns; i++) {
                set(x, i, get(x, i) * get(factors, r));
            }
        }
    }

    @Override
    public void dot(long a, long aStep, long b, long bStep, int rows, int columns, long dots) {
        for (int r = 0; r < rows; r++, a += 4 * aStep, b += 4 * bStep) {
            double sum = 0;
            for (int i = 0; i < columns; i++) {
                sum += (double) get(a, i) * get(b, i);
            }
            set(dots, r, sum);
        }
    }

    @Override
    public void gradients(ScoreBlock scores, long slopes, float scale, long shifts, long dots, float slopeScale) {
        for (int r = 0; r < scores.rows(); r++, slopes += 4L * scores.pitch()) {
            long row = scores.row(r);
            int seen = scores.seen(r);
            for (int i = 0; i < seen; i++) {
                float weight = ScalarExp.exp(get(row, i) * scale + get(shifts, r));
                set(row, i, weight);
                set(slopes, i, weight * ((get(slopes, i) - get(dots, r)) * slopeScale));
            }
            clear(row + 4L * seen, scores.keys() - seen);
            clear(slopes + 4L * seen, scores.keys() - seen);
        }
    }

    @Override
    public void clear(long x, int n) {
        for (int i = 0; i < n; i++) {
            set(x, i, 0f);
        }
    }
}
