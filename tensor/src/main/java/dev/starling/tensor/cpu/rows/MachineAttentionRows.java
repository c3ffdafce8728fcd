package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;

import dev.starling.tensor.cpu.jit.RowLoop;

/** Attention's row operations in machine code. */
final class MachineAttentionRows implements AttentionRows {
    private final RowLoop mask = RowLoop.of(b -> b.store(b.fma(b.column(), b.row(), b.column())));
    private final RowLoop greatest = RowLoop.of(b -> b.greatest(b.mul(b.column(), b.row())));
    private final RowLoop exponentials = RowLoop.of(b -> {
        int e = MachineExp.of(b, b.fma(b.column(), b.row(), b.row()));
        b.store(e);
        b.sum(e);
    });
    private final RowLoop product = RowLoop.of(b -> b.store(b.mul(b.column(), b.row())));
    private final RowLoop dot = RowLoop.of(b -> b.sumOfProducts(b.column(), b.column()));
    private final RowLoop gradients = RowLoop.of(b -> {
        int weight = MachineExp.of(b, b.fma(b.column(), b.row(), b.row()));
        b.store(weight);
        b.store(b.mul(weight, b.mul(b.sub(b.column(), b.row()), b.row())));
    });
    private final RowLoop fill = RowLoop.of(b -> b.store(b.row()));

    /** Sets one element for all columns. */
    private static void value(RowLoop loop, int operand, long values, int k, float value) {
        set(values, k, value);
        loop.operand(operand, values + 4L * k, 0);
    }

    @Override
    public void mask(long scores, int n, float scale, long masks) {
        mask.operand(0, scores, 0);
        value(mask, 1, RowValues.list(0), 0, scale);
        mask.operand(2, masks, 0);
        mask.operand(3, scores, 0);
        mask.run(1, n);
    }

    @Override
    public float max(long scores, int n, float scale) {
        long values = RowValues.list(0);
        greatest.operand(0, scores, 0);
        value(greatest, 1, values, 0, scale);
        greatest.operand(2, values + 4, 0);
        greatest.run(1, n);
        return get(values, 1);
    }

    @Override
    public float exponentials(long scores, int n, int end, float scale, float shift) {
        long values = RowValues.list(0);
        exponentials.operand(0, scores, 0);
        value(exponentials, 1, values, 0, scale);
        value(exponentials, 2, values, 1, -shift);
        exponentials.operand(3, scores, 0);
        exponentials.operand(4, values + 8, 0);
        exponentials.run(1, n);
        clear(scores + 4L * n, end - n);
        return get(values, 2);
    }

    @Override
    public void scale(long x, int n, float by) {
        product.operand(0, x, 0);
        value(product, 1, RowValues.list(0), 0, by);
        product.operand(2, x, 0);
        product.run(1, n);
    }

    @Override
    public float dot(long a, long b, int n) {
        long values = RowValues.list(0);
        dot.operand(0, a, 0);
        dot.operand(1, b, 0);
        dot.operand(2, values, 0);
        dot.run(1, n);
        return get(values, 0);
    }

    @Override
    public void gradients(long scores, long slopes, int n, int end, float scale, float log, float dots,
            float slopeScale) {
        long values = RowValues.list(0);
        gradients.operand(0, scores, 0);
        value(gradients, 1, values, 0, scale);
        value(gradients, 2, values, 1, -log);
        gradients.operand(3, scores, 0);
        gradients.operand(4, slopes, 0);
        value(gradients, 5, values, 2, dots);
        value(gradients, 6, values, 3, slopeScale);
        gradients.operand(7, slopes, 0);
        gradients.run(1, n);
        clear(scores + 4L * n, end - n);
        clear(slopes + 4L * n, end - n);
    }

    @Override
    public void clear(long x, int n) {
        if (n > 0) {
            value(fill, 0, RowValues.list(0), 0, 0);
            fill.operand(1, x, 0);
            fill.run(1, n);
        }
    }
}
