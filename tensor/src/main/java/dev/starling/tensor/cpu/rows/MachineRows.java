package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;

import dev.starling.tensor.cpu.jit.RowLoop;

/** The loops in machine code. Values of columns are read and written again for each row, in the first-level cache. */
final class MachineRows implements Rows {
    static final Rows LOOPS = new MachineRows();
    /** Elements whose sum is formed in f32. */
    private static final int BLOCK = 1024;

    private final RowLoop moments = RowLoop.of(b -> {
        int d = b.sub(b.column(), b.column());
        b.store(b.add(b.column(), d));
        b.store(b.fma(d, d, b.column()));
    });
    private final RowLoop gradientMoments = RowLoop.of(b -> gradientMoments(b, b.column()));
    private final RowLoop gatedMoments = RowLoop.of(b -> {
        int g = b.column();
        int zero = b.constant(0);
        gradientMoments(b, b.ifLess(zero, b.column(), g, zero));
    });
    private final RowLoop columnSums = RowLoop.of(b -> b.store(b.add(b.column(), b.column())));
    private final RowLoop maxima = RowLoop.of(b -> b.store(b.extreme(true, b.column(), b.column())));
    private final RowLoop minima = RowLoop.of(b -> b.store(b.extreme(false, b.column(), b.column())));
    private final RowLoop sum = RowLoop.of(b -> b.sum(b.column()));
    private final RowLoop maximum = RowLoop.of(b -> b.extreme(true, b.column()));
    private final RowLoop minimum = RowLoop.of(b -> b.extreme(false, b.column()));

    private static void gradientMoments(RowLoop.Builder b, int g) {
        int d = b.sub(b.column(), b.column());
        b.store(b.add(b.column(), g));
        b.store(b.fma(g, d, b.column()));
    }

    @Override
    public void moments(long x, long stride, int rows, int columns, long pivot, long sums, long squares) {
        moments.operand(0, x, stride);
        moments.operand(1, pivot, 0);
        moments.operand(2, sums, 0);
        moments.operand(3, sums, 0);
        moments.operand(4, squares, 0);
        moments.operand(5, squares, 0);
        moments.run(rows, columns);
    }

    @Override
    public void gradientMoments(long g, long x, long y, long stride, int rows, int columns, long mean, long sums,
            long products) {
        RowLoop loop = y == 0 ? gradientMoments : gatedMoments;
        int k = 0;
        loop.operand(k++, g, stride);
        if (y != 0) {
            loop.operand(k++, y, stride);
        }
        loop.operand(k++, x, stride);
        loop.operand(k++, mean, 0);
        loop.operand(k++, sums, 0);
        loop.operand(k++, sums, 0);
        loop.operand(k++, products, 0);
        loop.operand(k, products, 0);
        loop.run(rows, columns);
    }

    private static void join(RowLoop loop, long x, long stride, int rows, int columns, long result) {
        loop.operand(0, x, stride);
        loop.operand(1, result, 0);
        loop.operand(2, result, 0);
        loop.run(rows, columns);
    }

    @Override
    public void columnSums(long x, long stride, int rows, int columns, long sums) {
        join(columnSums, x, stride, rows, columns, sums);
    }

    @Override
    public void columnExtremes(long x, long stride, int rows, int columns, long extreme, boolean max) {
        join(max ? maxima : minima, x, stride, rows, columns, extreme);
    }

    /** Writes the results of up to {@link RowValues#ROWS} blocks, and returns their number. */
    private static int blocks(RowLoop loop, long x, long n, long results) {
        int rows = (int) Math.min(n / BLOCK, RowValues.ROWS);
        loop.operand(0, x, 4L * BLOCK);
        loop.operand(1, results, 4);
        loop.run(Math.max(rows, 1), rows == 0 ? (int) n : BLOCK);
        return Math.max(rows, 1);
    }

    @Override
    public double sum(long x, long n) {
        long results = RowValues.list(0);
        double total = 0;
        for (long from = 0; from < n;) {
            int blocks = blocks(sum, x + 4 * from, n - from, results);
            for (int i = 0; i < blocks; i++) {
                total += get(results, i);
            }
            from += (long) blocks * BLOCK;
        }
        return total;
    }

    @Override
    public float extreme(long x, long n, boolean max) {
        long results = RowValues.list(0);
        float extreme = get(x);
        for (long from = 0; from < n;) {
            int blocks = blocks(max ? maximum : minimum, x + 4 * from, n - from, results);
            for (int i = 0; i < blocks; i++) {
                extreme = max ? Math.max(extreme, get(results, i)) : Math.min(extreme, get(results, i));
            }
            from += (long) blocks * BLOCK;
        }
        return extreme;
    }
}
