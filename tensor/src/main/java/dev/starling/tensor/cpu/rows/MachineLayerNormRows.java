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
            affine.call().operand(x + at, 4L * columns)
                    .operand(mean + 4L * r, 4)
                    .operand(inverse + 4L * r, 4)
                    .operand(gamma, 0)
                    .operand(beta, 0)
                    .operand(y + at, 4L * columns)
                    .run(group, columns);
        }
    }

    /** The mean is corrected by that of the distances from it, so that it is exact where all elements are large. */
    private void statistics(long x, int rows, int columns, double epsilon, long mean, long inverse) {
        long near = RowValues.list(0);
        long sums = RowValues.list(1);
        sum.call().operand(x, 4L * columns)
                .operand(near, 4)
                .run(rows, columns);
        for (int i = 0; i < rows; i++) {
            set(near, i, get(near, i) / columns);
        }
        distance.call().operand(x, 4L * columns)
                .operand(near, 4)
                .operand(sums, 4)
                .run(rows, columns);
        for (int i = 0; i < rows; i++) {
            float m = get(near, i);
            set(mean, i, Float.isFinite(m) ? m + (double) get(sums, i) / columns : m);
        }
        squares.call().operand(x, 4L * columns)
                .operand(mean, 4)
                .operand(sums, 4)
                .run(rows, columns);
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
        accumulate.call().operand(g, 4L * columns)
                .operand(x, 4L * columns)
                .operand(mean, 4)
                .operand(inverse, 4)
                .operand(dgamma, 0)
                .operand(dgamma, 0)
                .operand(dbeta, 0)
                .operand(dbeta, 0)
                .run(rows, columns);
    }

    private void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse) {
        long sums = RowValues.list(0);
        long slopes = RowValues.list(1);
        products.call().operand(g, 4L * columns)
                .operand(gamma, 0)
                .operand(x, 4L * columns)
                .operand(mean, 4)
                .operand(sums, 4)
                .operand(slopes, 4)
                .run(rows, columns);
        for (int i = 0; i < rows; i++) {
            set(sums, i, get(sums, i) / columns);
            set(slopes, i, get(slopes, i) * get(inverse, i) / columns);
        }
        gradient.call().operand(g, 4L * columns)
                .operand(x, 4L * columns)
                .operand(gamma, 0)
                .operand(mean, 4)
                .operand(inverse, 4)
                .operand(sums, 4)
                .operand(slopes, 4)
                .operand(dx, 4L * columns)
                .run(rows, columns);
    }
}
