package dev.starling.tensor.cpu.jit;

/**
 * Runs a kernel and warms it up. Until the JVM has compiled it, a loop over vectors is some hundred times slower than
 * afterwards, while a loop over single elements loses far less. At first work is therefore divided into short pieces,
 * because the JVM compiles what is called often. Most pieces run in the loop over elements; the loop over vectors gets
 * as much time, and all work once it proves faster. Both loops give the same bits.
 */
final class TieredKernel implements Kernel {
    /** Calls after which the JVM should have replaced the interpreter. */
    private static final int CALLS_TO_START = 250;
    /** Calls of the loop over vectors after which it runs unconditionally. */
    private static final int MAX_VECTOR_CALLS = 10_000;
    private static final int SHORT_PIECE = 32;
    private static final int PIECE = 448;
    /** Pieces end alternately at and within a vector, so that the compiled code is profiled for both. */
    private static final int ODD = 5;
    private static final int WINS = 4;

    /** Whether all kernels run without warm-up: for tests, which need to know which of the two loops ran. */
    static boolean vectorsImmediately;

    private final Kernel kernel;
    private final boolean mixes;
    /** Whether the warm-up has ended. Counters may lose updates between threads, which is harmless. */
    private volatile boolean warm;
    private int elementCalls;
    private int vectorCalls;
    private long elementNs;
    private long vectorNs;
    /** The smallest recent time per element in ns. */
    private double elementPace = Double.MAX_VALUE;
    private int wins;

    /**
     * Makes a kernel that warms up.
     *
     * @param mixes whether {@link Kernel#run} is another loop than {@link Kernel#runElements}; both give the same bits
     */
    TieredKernel(Kernel kernel, boolean mixes) {
        this.kernel = kernel;
        this.mixes = mixes;
    }

    @Override
    public void run(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        if (warm || vectorsImmediately) {
            kernel.run(frame, rowFrom, rowTo, columnFrom, columnTo);
        } else {
            warmUp(frame, rowFrom, rowTo, columnFrom, columnTo);
        }
    }

    @Override
    public void runElements(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        kernel.runElements(frame, rowFrom, rowTo, columnFrom, columnTo);
    }

    private void warmUp(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
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
        warm = vectorCalls > MAX_VECTOR_CALLS || mixes && wins >= WINS;
    }
}
