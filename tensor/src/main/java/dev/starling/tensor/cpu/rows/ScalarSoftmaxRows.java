package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

/** Softmax and related functions in plain Java. */
final class ScalarSoftmaxRows implements SoftmaxRows {
    static final SoftmaxRows LOOPS = new ScalarSoftmaxRows();

    @Override
    public void softmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float max = max(x, columns);
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                float e = ScalarExp.exp(get(x, c) - max);
                set(y, c, e);
                sum += e;
            }
            for (int c = 0; c < columns; c++) {
                set(y, c, get(y, c) / sum);
            }
        }
    }

    @Override
    public void logSoftmax(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, y += 4L * columns) {
            float max = max(x, columns);
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                sum += ScalarExp.exp(get(x, c) - max);
            }
            double log = StrictMath.log(sum);
            for (int c = 0; c < columns; c++) {
                set(y, c, get(x, c) - max - log);
            }
        }
    }

    private static float max(long x, int columns) {
        float max = get(x, 0);
        for (int c = 1; c < columns; c++) {
            max = Math.max(max, get(x, c));
        }
        return max;
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            double dot = 0;
            for (int c = 0; c < columns; c++) {
                dot += (double) get(y, c) * get(g, c);
            }
            for (int c = 0; c < columns; c++) {
                set(dx, c, get(y, c) * (get(g, c) - dot));
            }
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        for (int r = 0; r < rows; r++, y += 4L * columns, g += 4L * columns, dx += 4L * columns) {
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                sum += get(g, c);
            }
            for (int c = 0; c < columns; c++) {
                set(dx, c, get(g, c) - ScalarExp.exp(get(y, c)) * sum);
            }
        }
    }

    @Override
    public void logSums(long x, long y, int rows, int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns) {
            float max = max(x, columns);
            double sum = 0;
            for (int c = 0; c < columns; c++) {
                sum += ScalarExp.exp(get(x, c) - max);
            }
            set(y, 2 * r, Double.isNaN(sum) ? Double.NaN : max);
            set(y, 2 * r + 1, StrictMath.log(sum));
        }
    }

    @Override
    public double distances(long x, float max, int columns) {
        double sum = 0;
        for (int c = 0; c < columns; c++) {
            sum += get(x, c) - max;
        }
        return sum;
    }

    @Override
    public void expGradient(long x, long logSums, float shift, long scale, long scaleStride, long dx, int rows,
            int columns) {
        for (int r = 0; r < rows; r++, x += 4L * columns, dx += 4L * columns) {
            float max = get(logSums, 2 * r);
            float log = get(logSums, 2 * r + 1);
            for (int c = 0; c < columns; c++) {
                set(dx, c, (ScalarExp.exp(get(x, c) - max - log) - shift) * get(scale + r * scaleStride, 0));
            }
        }
    }
}
