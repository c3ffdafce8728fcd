package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.set;

import dev.starling.tensor.cpu.jit.RowLoop;

/**
 * Attention's row operations in machine code. Operands 0 to 3 of the loops over seen scores are the numbers of keys,
 * the number of keys that a row sees, scores, and their factor.
 */
final class MachineAttentionRows implements AttentionRows {
    static final AttentionRows LOOPS = new MachineAttentionRows();

    private final RowLoop mask = RowLoop.of(b -> b.store(b.fma(b.column(), b.row(), b.column())));
    private final RowLoop greatest = RowLoop.of(b -> {
        int number = b.column();
        int seen = b.row();
        int score = b.mul(b.column(), b.row());
        b.greatest(b.ifBelow(number, seen, score, b.constant(Double.NEGATIVE_INFINITY)));
    });
    private final RowLoop exponentials = RowLoop.of(b -> {
        int number = b.column();
        int seen = b.row();
        int e = b.ifBelow(number, seen, exponential(b), b.constant(0));
        b.store(e);
        b.sum(e);
    });
    private final RowLoop product = RowLoop.of(b -> b.store(b.mul(b.column(), b.row())));
    private final RowLoop dot = RowLoop.of(b -> b.sumOfProducts(b.column(), b.column()));
    private final RowLoop gradients = RowLoop.of(b -> {
        int number = b.column();
        int seen = b.row();
        int weight = exponential(b);
        b.store(b.ifBelow(number, seen, weight, b.constant(0)));
        int slope = b.mul(weight, b.mul(b.sub(b.column(), b.row()), b.row()));
        b.store(b.ifBelow(number, seen, slope, b.constant(0)));
    });
    private final RowLoop fill = RowLoop.of(b -> b.store(b.row()));

    /** Adds scores, their factor and shifts, and returns the exponential of their sum. */
    private static int exponential(RowLoop.Builder b) {
        return MachineExp.of(b, b.fma(b.column(), b.row(), b.row()));
    }

    /** Sets the operands that all loops over seen scores have. */
    private static void seen(RowLoop loop, ScoreBlock scores, float scale) {
        loop.operand(0, scores.numbers(), 0);
        loop.operand(1, scores.seen(), 4);
        loop.operand(2, scores.address(), 4L * scores.pitch());
        value(loop, 3, 0, scale);
    }

    /** Sets one element for all columns and rows. */
    private static void value(RowLoop loop, int operand, int k, float value) {
        long values = RowValues.list(0);
        set(values, k, value);
        loop.operand(operand, values + 4L * k, 0);
    }

    @Override
    public void mask(ScoreBlock scores, float scale, long masks, long maskStep) {
        mask.operand(0, scores.address(), 4L * scores.pitch());
        value(mask, 1, 0, scale);
        mask.operand(2, masks, 4 * maskStep);
        mask.operand(3, scores.address(), 4L * scores.pitch());
        mask.run(scores.rows(), scores.keys());
    }

    @Override
    public void max(ScoreBlock scores, float scale, long maxima) {
        seen(greatest, scores, scale);
        greatest.operand(4, maxima, 4);
        greatest.run(scores.rows(), scores.keys());
    }

    @Override
    public void exponentials(ScoreBlock scores, float scale, long shifts, long sums) {
        seen(exponentials, scores, scale);
        exponentials.operand(4, shifts, 4);
        exponentials.operand(5, scores.address(), 4L * scores.pitch());
        exponentials.operand(6, sums, 4);
        exponentials.run(scores.rows(), scores.keys());
    }

    @Override
    public void scale(long x, long step, int rows, int columns, long factors) {
        product.operand(0, x, 4 * step);
        product.operand(1, factors, 4);
        product.operand(2, x, 4 * step);
        product.run(rows, columns);
    }

    @Override
    public void dot(long a, long aStep, long b, long bStep, int rows, int columns, long dots) {
        dot.operand(0, a, 4 * aStep);
        dot.operand(1, b, 4 * bStep);
        dot.operand(2, dots, 4);
        dot.run(rows, columns);
    }

    @Override
    public void gradients(ScoreBlock scores, long slopes, float scale, long shifts, long dots, float slopeScale) {
        long row = 4L * scores.pitch();
        seen(gradients, scores, scale);
        gradients.operand(4, shifts, 4);
        gradients.operand(5, scores.address(), row);
        gradients.operand(6, slopes, row);
        gradients.operand(7, dots, 4);
        value(gradients, 8, 1, slopeScale);
        gradients.operand(9, slopes, row);
        gradients.run(scores.rows(), scores.keys());
    }

    @Override
    public void clear(long x, int n) {
        value(fill, 0, 0, 0);
        fill.operand(1, x, 0);
        fill.run(1, n);
    }
}
