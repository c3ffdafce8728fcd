package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

import dev.starling.tensor.cpu.jit.RowLoop;

/** Softmax and related functions in machine code: several passes over a group of rows that stays in the cache. */
final class MachineSoftmaxRows implements SoftmaxRows {
    static final SoftmaxRows LOOPS = new MachineSoftmaxRows();

    private final RowLoop greatest = RowLoop.of(b -> b.greatest(b.column()));
    private final RowLoop exponentials = RowLoop.of(b -> {
        int e = MachineExp.of(b, b.sub(b.column(), b.row()));
        b.store(e);
        b.sum(e);
    });
    private final RowLoop sumOfExponentials = RowLoop.of(b -> b.sum(MachineExp.of(b, b.sub(b.column(), b.row()))));
    private final RowLoop quotients = RowLoop.of(b -> b.store(b.mul(b.column(), b.div(b.constant(1), b.row()))));
    private final RowLoop logs = RowLoop.of(b -> b.store(b.narrow(b.log(b.wide(b.column())))));
    private final RowLoop logSums = RowLoop.of(b -> {
        int sum = b.column();
        int max = b.column();
        b.store(b.ifNumber(sum, max, sum));
        b.store(b.narrow(b.log(b.wide(sum))));
    });
    private final RowLoop shift = RowLoop.of(b -> b.store(b.sub(b.sub(b.column(), b.row()), b.row())));
    private final RowLoop dot = RowLoop.of(b -> b.sumOfProducts(b.column(), b.column()));
    private final RowLoop gradient = RowLoop.of(b -> b.store(b.mul(b.sub(b.column(), b.row()), b.column())));
    private final RowLoop sum = RowLoop.of(b -> b.sum(b.column()));
    private final RowLoop logGradient = RowLoop.of(b ->
            b.store(b.fma(MachineExp.of(b, b.column()), b.neg(b.row()), b.column())));
    private final RowLoop distance = RowLoop.of(b -> b.sum(b.sub(b.column(), b.row())));
    private final RowLoop expGradient = RowLoop.of(b -> {
        int e = MachineExp.of(b, b.sub(b.sub(b.column(), b.row()), b.row()));
        b.store(b.mul(b.sub(e, b.row()), b.row()));
    });

    @Override
    public void softmax(long x, long y, int rows, int columns) {
        long max = RowValues.list(0);
        long sums = RowValues.list(1);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, x += group * row, y += group * row) {
            group = RowValues.group(rows - r, columns);
            max(x, group, columns, max);
            exponentials.call().operand(x, row)
                    .operand(max, 4)
                    .operand(y, row)
                    .operand(sums, 4)
                    .run(group, columns);
            quotients.call().operand(y, row)
                    .operand(sums, 4)
                    .operand(y, row)
                    .run(group, columns);
        }
    }

    private void max(long x, int rows, int columns, long max) {
        greatest.call().operand(x, 4L * columns)
                .operand(max, 4)
                .run(rows, columns);
    }

    private void sums(long x, int rows, int columns, long max, long sums) {
        sumOfExponentials.call().operand(x, 4L * columns)
                .operand(max, 4)
                .operand(sums, 4)
                .run(rows, columns);
    }

    @Override
    public void logSoftmax(long x, long y, int rows, int columns) {
        long max = RowValues.list(0);
        long sums = RowValues.list(1);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, x += group * row, y += group * row) {
            group = RowValues.group(rows - r, columns);
            max(x, group, columns, max);
            sums(x, group, columns, max, sums);
            logs.call().operand(sums, 0).operand(sums, 0).run(1, group);
            shift.call().operand(x, row)
                    .operand(max, 4)
                    .operand(sums, 4)
                    .operand(y, row)
                    .run(group, columns);
        }
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        long dots = RowValues.list(0);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, y += group * row, g += group * row, dx += group * row) {
            group = RowValues.group(rows - r, columns);
            dot.call().operand(y, row)
                    .operand(g, row)
                    .operand(dots, 4)
                    .run(group, columns);
            gradient.call().operand(g, row)
                    .operand(dots, 4)
                    .operand(y, row)
                    .operand(dx, row)
                    .run(group, columns);
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        long sums = RowValues.list(0);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, y += group * row, g += group * row, dx += group * row) {
            group = RowValues.group(rows - r, columns);
            sum.call().operand(g, row)
                    .operand(sums, 4)
                    .run(group, columns);
            logGradient.call().operand(y, row)
                    .operand(sums, 4)
                    .operand(g, row)
                    .operand(dx, row)
                    .run(group, columns);
        }
    }

    @Override
    public void logSums(long x, long y, int rows, int columns) {
        long max = RowValues.list(0);
        long sums = RowValues.list(1);
        int group;
        for (int r = 0; r < rows; r += group, x += 4L * group * columns, y += 8L * group) {
            group = RowValues.group(rows - r, columns);
            max(x, group, columns, max);
            sums(x, group, columns, max, sums);
            logSums.call().operand(sums, 4)
                    .operand(max, 4)
                    .operand(y, 8)
                    .operand(y + 4, 8)
                    .run(group, 1);
        }
    }

    @Override
    public double distances(long x, float max, int columns) {
        long values = RowValues.list(0);
        set(values, 0, max);
        distance.call().operand(x, 0)
                .operand(values, 0)
                .operand(values + 4, 0)
                .run(1, columns);
        return get(values, 1);
    }

    @Override
    public void expGradient(long x, long logSums, float shiftBy, long scales, long scaleStride, long dx, int rows,
            int columns) {
        long shifts = RowValues.list(0);
        set(shifts, 0, shiftBy);
        expGradient.call().operand(x, 4L * columns)
                .operand(logSums, 8)
                .operand(logSums + 4, 8)
                .operand(shifts, 0)
                .operand(scales, scaleStride)
                .operand(dx, 4L * columns)
                .run(rows, columns);
    }
}
