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
    private final RowLoop scale = RowLoop.of(b -> b.store(b.mul(b.column(), b.row())));
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
            exponentials.operand(0, x, row);
            exponentials.operand(1, max, 4);
            exponentials.operand(2, y, row);
            exponentials.operand(3, sums, 4);
            exponentials.run(group, columns);
            for (int i = 0; i < group; i++) {
                set(sums, i, 1 / get(sums, i));
            }
            scale.operand(0, y, row);
            scale.operand(1, sums, 4);
            scale.operand(2, y, row);
            scale.run(group, columns);
        }
    }

    private void max(long x, int rows, int columns, long max) {
        greatest.operand(0, x, 4L * columns);
        greatest.operand(1, max, 4);
        greatest.run(rows, columns);
    }

    private void sums(long x, int rows, int columns, long max, long sums) {
        sumOfExponentials.operand(0, x, 4L * columns);
        sumOfExponentials.operand(1, max, 4);
        sumOfExponentials.operand(2, sums, 4);
        sumOfExponentials.run(rows, columns);
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
            for (int i = 0; i < group; i++) {
                set(sums, i, StrictMath.log(get(sums, i)));
            }
            shift.operand(0, x, row);
            shift.operand(1, max, 4);
            shift.operand(2, sums, 4);
            shift.operand(3, y, row);
            shift.run(group, columns);
        }
    }

    @Override
    public void softmaxGradient(long y, long g, long dx, int rows, int columns) {
        long dots = RowValues.list(0);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, y += group * row, g += group * row, dx += group * row) {
            group = RowValues.group(rows - r, columns);
            dot.operand(0, y, row);
            dot.operand(1, g, row);
            dot.operand(2, dots, 4);
            dot.run(group, columns);
            gradient.operand(0, g, row);
            gradient.operand(1, dots, 4);
            gradient.operand(2, y, row);
            gradient.operand(3, dx, row);
            gradient.run(group, columns);
        }
    }

    @Override
    public void logSoftmaxGradient(long y, long g, long dx, int rows, int columns) {
        long sums = RowValues.list(0);
        long row = 4L * columns;
        int group;
        for (int r = 0; r < rows; r += group, y += group * row, g += group * row, dx += group * row) {
            group = RowValues.group(rows - r, columns);
            sum.operand(0, g, row);
            sum.operand(1, sums, 4);
            sum.run(group, columns);
            logGradient.operand(0, y, row);
            logGradient.operand(1, sums, 4);
            logGradient.operand(2, g, row);
            logGradient.operand(3, dx, row);
            logGradient.run(group, columns);
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
            for (int i = 0; i < group; i++) {
                float total = get(sums, i);
                set(y, 2 * i, Float.isNaN(total) ? total : get(max, i));
                set(y, 2 * i + 1, StrictMath.log(total));
            }
        }
    }

    @Override
    public double distances(long x, float max, int columns) {
        long values = RowValues.list(0);
        set(values, 0, max);
        distance.operand(0, x, 0);
        distance.operand(1, values, 0);
        distance.operand(2, values + 4, 0);
        distance.run(1, columns);
        return get(values, 1);
    }

    @Override
    public void expGradient(long x, long logSums, float shiftBy, long scales, long scaleStride, long dx, int rows,
            int columns) {
        long shifts = RowValues.list(0);
        set(shifts, 0, shiftBy);
        expGradient.operand(0, x, 4L * columns);
        expGradient.operand(1, logSums, 8);
        expGradient.operand(2, logSums + 4, 8);
        expGradient.operand(3, shifts, 0);
        expGradient.operand(4, scales, scaleStride);
        expGradient.operand(5, dx, 4L * columns);
        expGradient.run(rows, columns);
    }
}
