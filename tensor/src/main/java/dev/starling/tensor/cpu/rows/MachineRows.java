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
        moments.call().operand(x, stride)
                .operand(pivot, 0)
                .operand(sums, 0)
                .operand(sums, 0)
                .operand(squares, 0)
                .operand(squares, 0)
                .run(rows, columns);
    }

    @Override
    public void gradientMoments(long g, long x, long y, long stride, int rows, int columns, long mean, long sums,
            long products) {
        RowLoop.Call call = (y == 0 ? gradientMoments : gatedMoments).call().operand(g, stride);
        if (y != 0) {
            call.operand(y, stride);
        }
        call.operand(x, stride)
                .operand(mean, 0)
                .operand(sums, 0)
                .operand(sums, 0)
                .operand(products, 0)
                .operand(products, 0)
                .run(rows, columns);
    }

    private static void join(RowLoop loop, long x, long stride, int rows, int columns, long result) {
        loop.call().operand(x, stride)
                .operand(result, 0)
                .operand(result, 0)
                .run(rows, columns);
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
        loop.call().operand(x, 4L * BLOCK)
                .operand(results, 4)
                .run(Math.max(rows, 1), rows == 0 ? (int) n : BLOCK);
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
