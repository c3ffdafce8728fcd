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
    private final RowLoop least = RowLoop.of(b -> {
        int next = b.column();
        int keys = b.row();
        b.store(b.ifBelow(next, keys, next, keys));
    });
    private final RowLoop shift = RowLoop.of(b -> {
        int max = b.column();
        b.store(b.ifSame(max, b.constant(Double.NEGATIVE_INFINITY), b.constant(0), b.neg(max)));
    });
    private final RowLoop factors = RowLoop.of(b -> {
        int sum = b.column();
        int zero = b.constant(0);
        b.store(b.ifSame(sum, zero, zero, b.div(b.constant(1), sum)));
        int log = b.narrow(b.sub(b.log(b.wide(sum)), b.wide(b.column())));
        b.store(b.ifSame(sum, zero, b.constant(Double.NEGATIVE_INFINITY), log));
    });
    private final RowLoop logShift = RowLoop.of(b -> {
        int log = b.column();
        b.store(b.neg(log));
        b.store(b.ifSame(log, b.constant(Double.NEGATIVE_INFINITY), b.constant(0), b.column()));
    });

    /**
     * Adds scores, their factor and shifts, and returns the exponential of their sum. Products are rounded as for the
     * maximum, so that the exponent of the greatest score is 0.
     */
    private static int exponential(RowLoop.Builder b) {
        return MachineExp.of(b, b.add(b.mul(b.column(), b.row()), b.row()));
    }

    /** Sets the operands that all loops over seen scores have. */
    private static RowLoop.Call seen(RowLoop loop, ScoreBlock scores, float scale) {
        return loop.call().operand(scores.numbers(), 0)
                .operand(scores.seen(), 4)
                .operand(scores.address(), 4L * scores.pitch())
                .operand(value(0, scale), 0);
    }

    /** Returns the address of one element for all columns and rows. */
    private static long value(int k, float value) {
        long values = RowValues.list(0);
        set(values, k, value);
        return values + 4L * k;
    }

    @Override
    public void mask(ScoreBlock scores, float scale, long masks, long maskStep) {
        mask.call().operand(scores.address(), 4L * scores.pitch())
                .operand(value(0, scale), 0)
                .operand(masks, 4 * maskStep)
                .operand(scores.address(), 4L * scores.pitch())
                .run(scores.rows(), scores.keys());
    }

    @Override
    public void max(ScoreBlock scores, float scale, long maxima) {
        seen(greatest, scores, scale).operand(maxima, 4).run(scores.rows(), scores.keys());
    }

    @Override
    public void exponentials(ScoreBlock scores, float scale, long shifts, long sums) {
        seen(exponentials, scores, scale).operand(shifts, 4)
                .operand(scores.address(), 4L * scores.pitch())
                .operand(sums, 4)
                .run(scores.rows(), scores.keys());
    }

    @Override
    public void scale(long x, long step, int rows, int columns, long factors) {
        product.call().operand(x, 4 * step)
                .operand(factors, 4)
                .operand(x, 4 * step)
                .run(rows, columns);
    }

    @Override
    public void dot(long a, long aStep, long b, long bStep, int rows, int columns, long dots) {
        dot.call().operand(a, 4 * aStep)
                .operand(b, 4 * bStep)
                .operand(dots, 4)
                .run(rows, columns);
    }

    @Override
    public void gradients(ScoreBlock scores, long slopes, float scale, long shifts, long dots, float slopeScale) {
        long row = 4L * scores.pitch();
        seen(gradients, scores, scale).operand(shifts, 4)
                .operand(scores.address(), row)
                .operand(slopes, row)
                .operand(dots, 4)
                .operand(value(1, slopeScale), 0)
                .operand(slopes, row)
                .run(scores.rows(), scores.keys());
    }

    @Override
    public void clear(long x, int n) {
        fill.call().operand(value(0, 0), 0).operand(x, 0).run(1, n);
    }

    @Override
    public void seen(long seen, long numbers, int heads, int queries, int first, int keys, boolean causal) {
        long all = numbers + 4L * keys;
        if (causal) {
            least.call().operand(numbers + 4L * (first + 1), 0)
                    .operand(all, 0)
                    .operand(seen, 4L * queries)
                    .run(heads, queries);
        } else {
            fill.call().operand(all, 0).operand(seen, 0).run(1, heads * queries);
        }
    }

    @Override
    public void shifts(long maxima, int rows) {
        shift.call().operand(maxima, 0).operand(maxima, 0).run(1, rows);
    }

    @Override
    public void factors(long sums, long shifts, int heads, int queries, long logs, long logStep) {
        factors.call().operand(sums, 4L * queries)
                .operand(sums, 4L * queries)
                .operand(shifts, 4L * queries)
                .operand(logs, 4 * logStep)
                .run(heads, queries);
    }

    @Override
    public void shifts(long logs, long logStep, int heads, int queries, long shifts, long seen) {
        logShift.call().operand(logs, 4 * logStep)
                .operand(shifts, 4L * queries)
                .operand(seen, 4L * queries)
                .operand(seen, 4L * queries)
                .run(heads, queries);
    }
}
