package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

import dev.starling.tensor.cpu.jit.RowLoop;

/** Layer normalisation in machine code: several passes over a group of rows that stays in the cache. */
final class MachineLayerNormRows implements LayerNormRows {
    static final LayerNormRows LOOPS = new MachineLayerNormRows();

    private final RowLoop sum = RowLoop.of(b -> b.sum(b.column()));
    private final RowLoop distance = RowLoop.of(b -> b.sum(b.sub(b.column(), b.row())));
    private final RowLoop squares = RowLoop.of(b -> {
        int d = b.sub(b.column(), b.row());
        b.sumOfProducts(d, d);
    });
    private final RowLoop affine = RowLoop.of(b -> {
        int n = b.mul(b.sub(b.column(), b.row()), b.row());
        b.store(b.fma(n, b.column(), b.column()));
    });
    private final RowLoop products = RowLoop.of(b -> {
        int g = b.column();
        int gamma = b.column();
        int d = b.sub(b.column(), b.row());
        b.sumOfProducts(g, gamma);
        b.sumOfProducts(b.mul(g, gamma), d);
    });
    private final RowLoop accumulate = RowLoop.of(b -> {
        int g = b.column();
        int n = b.mul(b.sub(b.column(), b.row()), b.row());
        b.store(b.fma(n, g, b.column()));
        b.store(b.add(b.column(), g));
    });
    private final RowLoop gradient = RowLoop.of(b -> {
        int g = b.column();
        int x = b.column();
        int gamma = b.column();
        int mean = b.row();
        int inverse = b.row();
        int h = b.sub(b.mul(g, gamma), b.row());
        int n = b.mul(b.sub(x, mean), inverse);
        b.store(b.mul(b.fma(n, b.neg(b.row()), h), inverse));
    });

    @Override
    public void normalize(long x, long y, int rows, int columns, long gamma, long beta, double epsilon, long mean,
            long inverse) {
        int group;
        for (int r = 0; r < rows; r += group) {
            group = RowValues.group(rows - r, columns);
            long at = 4L * r * columns;
            statistics(x + at, group, columns, epsilon, mean + 4L * r, inverse + 4L * r);
            affine.operand(0, x + at, 4L * columns);
            affine.operand(1, mean + 4L * r, 4);
            affine.operand(2, inverse + 4L * r, 4);
            affine.operand(3, gamma, 0);
            affine.operand(4, beta, 0);
            affine.operand(5, y + at, 4L * columns);
            affine.run(group, columns);
        }
    }

    /** The mean is corrected by that of the distances from it, so that it is exact where all elements are large. */
    private void statistics(long x, int rows, int columns, double epsilon, long mean, long inverse) {
        long near = RowValues.list(0);
        long sums = RowValues.list(1);
        sum.operand(0, x, 4L * columns);
        sum.operand(1, near, 4);
        sum.run(rows, columns);
        for (int i = 0; i < rows; i++) {
            set(near, i, get(near, i) / columns);
        }
        distance.operand(0, x, 4L * columns);
        distance.operand(1, near, 4);
        distance.operand(2, sums, 4);
        distance.run(rows, columns);
        for (int i = 0; i < rows; i++) {
            float m = get(near, i);
            set(mean, i, Float.isFinite(m) ? m + (double) get(sums, i) / columns : m);
        }
        squares.operand(0, x, 4L * columns);
        squares.operand(1, mean, 4);
        squares.operand(2, sums, 4);
        squares.run(rows, columns);
        for (int i = 0; i < rows; i++) {
            set(inverse, i, 1 / Math.sqrt((double) get(sums, i) / columns + epsilon));
        }
    }

    @Override
    public void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse,
            long dgamma, long dbeta) {
        int group;
        for (int r = 0; r < rows; r += group) {
            group = RowValues.group(rows - r, columns);
            long at = 4L * r * columns;
            accumulate(g + at, x + at, group, columns, mean + 4L * r, inverse + 4L * r, dgamma, dbeta);
            gradient(g + at, x + at, dx + at, group, columns, gamma, mean + 4L * r, inverse + 4L * r);
        }
    }

    private void accumulate(long g, long x, int rows, int columns, long mean, long inverse, long dgamma, long dbeta) {
        accumulate.operand(0, g, 4L * columns);
        accumulate.operand(1, x, 4L * columns);
        accumulate.operand(2, mean, 4);
        accumulate.operand(3, inverse, 4);
        accumulate.operand(4, dgamma, 0);
        accumulate.operand(5, dgamma, 0);
        accumulate.operand(6, dbeta, 0);
        accumulate.operand(7, dbeta, 0);
        accumulate.run(rows, columns);
    }

    private void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse) {
        long sums = RowValues.list(0);
        long slopes = RowValues.list(1);
        products.operand(0, g, 4L * columns);
        products.operand(1, gamma, 0);
        products.operand(2, x, 4L * columns);
        products.operand(3, mean, 4);
        products.operand(4, sums, 4);
        products.operand(5, slopes, 4);
        products.run(rows, columns);
        for (int i = 0; i < rows; i++) {
            set(sums, i, get(sums, i) / columns);
            set(slopes, i, get(slopes, i) * get(inverse, i) / columns);
        }
        gradient.operand(0, g, 4L * columns);
        gradient.operand(1, x, 4L * columns);
        gradient.operand(2, gamma, 0);
        gradient.operand(3, mean, 4);
        gradient.operand(4, inverse, 4);
        gradient.operand(5, sums, 4);
        gradient.operand(6, slopes, 4);
        gradient.operand(7, dx, 4L * columns);
        gradient.run(rows, columns);
    }
}
