package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** The loops in plain Java, which define the results and run without the Vector API. */
final class ScalarRows implements Rows {
    static final Rows LOOPS = new ScalarRows();

    @Override
    public void moments(long x, long stride, int rows, int columns, long pivot, long sum, long squares) {
        for (int r = 0; r < rows; r++) {
            long row = x + r * stride;
            for (int c = 0; c < columns; c++) {
                long at = 4L * c;
                float d = get(row + at) - get(pivot + at);
                set(sum + at, get(sum + at) + d);
                set(squares + at, Math.fma(d, d, get(squares + at)));
            }
        }
    }

    @Override
    public void gradientMoments(long g, long x, long y, long stride, int rows, int columns, long mean, long sum,
            long product) {
        for (int r = 0; r < rows; r++) {
            long row = r * stride;
            for (int c = 0; c < columns; c++) {
                long at = 4L * c;
                float v = y == 0 || get(y + row + at) > 0 ? get(g + row + at) : 0;
                set(sum + at, get(sum + at) + v);
                set(product + at, Math.fma(v, get(x + row + at) - get(mean + at), get(product + at)));
            }
        }
    }

    @Override
    public void columnSums(long x, long stride, int rows, int columns, long sum) {
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                set(sum + 4L * c, get(sum + 4L * c) + get(x + r * stride + 4L * c));
            }
        }
    }

    @Override
    public void columnExtremes(long x, long stride, int rows, int columns, long extreme, boolean max) {
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                float v = get(x + r * stride + 4L * c);
                float e = get(extreme + 4L * c);
                set(extreme + 4L * c, max ? Math.max(v, e) : Math.min(v, e));
            }
        }
    }

    @Override
    public double sum(long x, long n) {
        double sum = 0;
        for (long i = 0; i < n; i++) {
            sum += get(x + 4 * i);
        }
        return sum;
    }

    @Override
    public float extreme(long x, long n, boolean max) {
        float e = get(x);
        for (long i = 1; i < n; i++) {
            float v = get(x + 4 * i);
            e = max ? Math.max(v, e) : Math.min(v, e);
        }
        return e;
    }
}
