package dev.starling.tensor.cpu.jit;

/**
 * A kernel, and how it becomes fast. Until the JVM has compiled it, a loop over vectors is some hundred times slower
 * than afterwards, one over single elements far less. At first a loop is therefore cut into short pieces, since the JVM
 * compiles what is called often. Most go to the loop over elements; the one over vectors gets as much time, and all of
 * it once it is seen to be the faster. Both make the same bits.
 */
final class TieredKernel implements Kernel {
    /** Calls after which the JVM should have replaced the interpreter. */
    private static final int CALLS_TO_START = 250;
    /** Calls of the loop over vectors after which it is used whatever the clock says. */
    private static final int CALLS_AT_MOST = 10_000;
    private static final int SHORT_PIECE = 32;
    private static final int PIECE = 448;
    /** Pieces end now at a whole vector and now within one, so that neither comes as a surprise to compiled code. */
    private static final int ODD = 5;
    private static final int WINS = 4;

    /** Whether all kernels run as they come: for tests, which could not tell the two loops apart otherwise. */
    static boolean vectorsAtOnce;

    private final Kernel kernel;
    private final boolean mixes;
    /** Whether the kernel is run as it comes. Counters may lose updates between threads, which does no harm. */
    private volatile boolean warm;
    private int elementCalls;
    private int vectorCalls;
    private long elementNs;
    private long vectorNs;
    /** The least time per element lately, in ns. */
    private double elementPace = Double.MAX_VALUE;
    private int wins;

    /**
     * Makes a kernel that warms up.
     *
     * @param mixes whether {@link Kernel#run} is another loop than {@link Kernel#runElements} and makes the same bits
     */
    TieredKernel(Kernel kernel, boolean mixes) {
        this.kernel = kernel;
        this.mixes = mixes;
    }

    @Override
    public void run(long[] frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        if (warm || vectorsAtOnce) {
            kernel.run(frame, rowFrom, rowTo, columnFrom, columnTo);
        } else {
            warmUp(frame, rowFrom, rowTo, columnFrom, columnTo);
        }
    }

    @Override
    public void runElements(long[] frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        kernel.runElements(frame, rowFrom, rowTo, columnFrom, columnTo);
    }

    private void warmUp(long[] frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        long rows;
        for (long row = rowFrom; row < rowTo; row += rows) {
            rows = 1;
            long columns;
            for (long column = columnFrom; column < columnTo; column += columns) {
                boolean inVectors = !mixes || elementCalls > CALLS_TO_START && vectorNs < elementNs;
                int calls = inVectors ? vectorCalls : elementCalls;
                int piece = calls < CALLS_TO_START ? SHORT_PIECE : PIECE;
                columns = Math.min(columnTo - column, rowTo - row > 1 ? piece / 2 : piece);
                columns -= mixes && calls % 2 == 0 && columns > ODD ? ODD : 0;
                if (column == columnFrom) {
                    rows = Math.min(rowTo - row, Math.max(1, piece / columns));
                }
                long start = System.nanoTime();
                if (inVectors) {
                    kernel.run(frame, row, row + rows, column, column + columns);
                    observeVectors(System.nanoTime() - start, rows * columns);
                } else {
                    kernel.runElements(frame, row, row + rows, column, column + columns);
                    observeElements(System.nanoTime() - start, rows * columns);
                }
            }
        }
    }

    private void observeElements(long ns, long count) {
        elementCalls++;
        elementNs += ns;
        elementPace = Math.min(ns / (double) count, elementPace * 1.01);
    }

    private void observeVectors(long ns, long count) {
        vectorNs += ++vectorCalls > CALLS_TO_START ? ns : 0;
        wins = ns < elementPace * count ? wins + 1 : 0;
        warm = vectorCalls > CALLS_AT_MOST || mixes && wins >= WINS;
    }
}
