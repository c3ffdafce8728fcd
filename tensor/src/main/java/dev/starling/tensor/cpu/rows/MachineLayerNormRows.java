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
    private final RowLoop quotients = RowLoop.of(b -> b.store(b.div(b.column(), b.row())));
    private final RowLoop means = RowLoop.of(b -> {
        int near = b.column();
        int mean = b.narrow(b.add(b.wide(near), b.div(b.wide(b.column()), b.wide(b.row()))));
        b.store(b.ifFinite(near, mean, near));
    });
    private final RowLoop inverses = RowLoop.of(b -> {
        int variance = b.div(b.wide(b.column()), b.wide(b.row()));
        int deviation = b.sqrt(b.add(variance, b.wide(b.row())));
        b.store(b.narrow(b.div(b.wide(b.constant(1)), deviation)));
    });
    private final RowLoop slopes = RowLoop.of(b -> b.store(b.div(b.mul(b.column(), b.column()), b.row())));

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
        long values = RowValues.list(2);
        set(values, 0, (float) columns);
        set(values, 1, epsilon);
        sum.call().operand(x, 4L * columns)
                .operand(near, 4)
                .run(rows, columns);
        quotients.call().operand(near, 0).operand(values, 0).operand(near, 0).run(1, rows);
        distance.call().operand(x, 4L * columns)
                .operand(near, 4)
                .operand(sums, 4)
                .run(rows, columns);
        means.call().operand(near, 0).operand(sums, 0).operand(values, 0).operand(mean, 0).run(1, rows);
        squares.call().operand(x, 4L * columns)
                .operand(mean, 4)
                .operand(sums, 4)
                .run(rows, columns);
        if (epsilon == 0 || epsilon >= Float.MIN_NORMAL) {
            inverses.call().operand(sums, 0).operand(values, 0).operand(values + 4, 0).operand(inverse, 0).run(1, rows);
        } else {
            for (int i = 0; i < rows; i++) {
                set(inverse, i, 1 / Math.sqrt((double) get(sums, i) / columns + epsilon));
            }
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
        long ofSquares = RowValues.list(1);
        long count = RowValues.list(2);
        set(count, 0, (float) columns);
        products.call().operand(g, 4L * columns)
                .operand(gamma, 0)
                .operand(x, 4L * columns)
                .operand(mean, 4)
                .operand(sums, 4)
                .operand(ofSquares, 4)
                .run(rows, columns);
        quotients.call().operand(sums, 0).operand(count, 0).operand(sums, 0).run(1, rows);
        slopes.call().operand(ofSquares, 0).operand(inverse, 0).operand(count, 0).operand(ofSquares, 0).run(1, rows);
        gradient.call().operand(g, 4L * columns)
                .operand(x, 4L * columns)
                .operand(gamma, 0)
                .operand(mean, 4)
                .operand(inverse, 4)
                .operand(sums, 4)
                .operand(ofSquares, 4)
                .operand(dx, 4L * columns)
                .run(rows, columns);
    }
}
