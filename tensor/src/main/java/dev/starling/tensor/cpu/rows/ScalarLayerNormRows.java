package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** Layer normalisation in plain Java. */
final class ScalarLayerNormRows implements LayerNormRows {
    static final LayerNormRows LOOPS = new ScalarLayerNormRows();

    @Override
    public void normalize(long x, long y, int rows, int columns, long gamma, long beta, double epsilon, long mean,
            long inverse) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                sum += get(x, c);
            }
            double m = sum / columns;
            double squares = 0;
            for (int c = 0; c < columns; c++) {
                squares += (get(x, c) - m) * (get(x, c) - m);
            }
            double inv = 1 / Math.sqrt(squares / columns + epsilon);
            for (int c = 0; c < columns; c++) {
                set(y, c, (get(x, c) - m) * inv * get(gamma, c) + get(beta, c));
            }
            set(mean, r, m);
            set(inverse, r, inv);
        }
    }

    @Override
    public void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse,
            long dgamma, long dbeta) {
        for (int r = 0; r < rows; r++, g += 4L * columns, x += 4L * columns, dx += 4L * columns) {
            float m = get(mean, r);
            float inv = get(inverse, r);
            double sum = 0;
            double product = 0;
            for (int c = 0; c < columns; c++) {
                double h = (double) get(g, c) * get(gamma, c);
                sum += h;
                product += h * ((get(x, c) - m) * inv);
            }
            for (int c = 0; c < columns; c++) {
                float n = (get(x, c) - m) * inv;
                set(dgamma, c, Math.fma(get(g, c), n, get(dgamma, c)));
                set(dbeta, c, get(dbeta, c) + get(g, c));
                set(dx, c, (get(g, c) * get(gamma, c) - (sum + n * product) / columns) * inv);
            }
        }
    }
}
