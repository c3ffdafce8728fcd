package dev.starling.kafka;

import dev.starling.tensor.Tensor;

/**
 * Splits a row into the model's input and, after it, the target.
 *
 * @param columns of a row
 * @param targets how many of them are the target
 * @param classes 0 if the target is numbers; else the target is one whole number from 0 to below this
 */
record RowSplit(int columns, int targets, int classes) {
    RowSplit {
        if (targets < 1 || targets >= columns) {
            throw new StreamException("a row of " + columns + " numbers must have 1 to " + (columns - 1)
                    + " of the target, got " + targets);
        }
    }

    int inputs() {
        return columns - targets;
    }

    /** Returns an error if the class of a row is not valid, else {@code null}. */
    String error(float[] row, int at) {
        float target = row[at + inputs()];
        return classes == 0 || target == Math.rint(target) && target >= 0 && target < classes ? null
                : "the class in column " + inputs() + " must be a whole number from 0 to " + (classes - 1) + ", got "
                + target;
    }

    /** Returns {@code [n, inputs]} in f32. */
    Tensor input(float[] rows, int n) {
        return Tensor.of(part(rows, n, 0, inputs()), n, inputs());
    }

    /** Returns {@code [n]} in i64 for classes, else {@code [n, targets]} in f32. */
    Tensor target(float[] rows, int n) {
        float[] part = part(rows, n, inputs(), targets);
        if (classes == 0) {
            return Tensor.of(part, n, targets);
        }
        long[] labels = new long[n];
        for (int i = 0; i < n; i++) {
            labels[i] = (long) part[i];
        }
        return Tensor.of(labels, n);
    }

    private float[] part(float[] rows, int n, int from, int count) {
        float[] part = new float[n * count];
        for (int i = 0; i < n; i++) {
            System.arraycopy(rows, i * columns + from, part, i * count, count);
        }
        return part;
    }
}
