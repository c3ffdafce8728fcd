package dev.starling.tensor.cpu.jit;

/**
 * A kernel, and how it becomes fast. Until the JVM has compiled it, a loop over vectors is far slower than one over
 * single elements, which is compiled sooner. At first a loop is therefore cut into short pieces, since the JVM compiles
 * what is called often; most pieces go to the loop over elements and some to the one over vectors, until that is seen
 * to be the faster. Both make the same bits, except for functions that the Vector API brings: kernels with those never
 * mix.
 */
final class TieredKernel implements Kernel {
    /** Calls after which the JVM has been given enough reason to compile a loop. */
    private static final int CALLS_TO_COMPILE = 900;
    /** Calls of the loop over vectors after which it is used whatever the clock says. */
    private static final int CALLS_AT_MOST = 6000;
    private static final int SHORT_PIECE = 32;
    private static final int PIECE = 512;

    private final Kernel kernel;
    private final boolean mixes;
    /**
     * Whether the kernel is run as it comes. The counters below may lose updates between threads, which does no harm.
     */
    private volatile boolean warm;
    private int calls;
    private int vectorCalls;
    private int wins;
    private double elementNs = Double.MAX_VALUE;

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
        if (warm) {
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
        for (long row = rowFrom; row < rowTo; row++) {
            for (long column = columnFrom; column < columnTo;) {
                long end = Math.min(columnTo, column + (calls < 2 * CALLS_TO_COMPILE ? SHORT_PIECE : PIECE));
                calls++;
                if (mixes) {
                    runPiece(frame, row, column, end);
                } else {
                    kernel.run(frame, row, row + 1, column, end);
                    warm = calls > CALLS_AT_MOST;
                }
                column = end;
            }
        }
    }

    private void runPiece(long[] frame, long row, long column, long end) {
        int period = calls < CALLS_TO_COMPILE ? Integer.MAX_VALUE : vectorCalls < CALLS_TO_COMPILE ? 4 : 64;
        boolean inVectors = calls % period == period - 1;
        long start = System.nanoTime();
        if (inVectors) {
            kernel.run(frame, row, row + 1, column, end);
        } else {
            kernel.runElements(frame, row, row + 1, column, end);
        }
        double ns = (System.nanoTime() - start) / (double) (end - column);
        if (inVectors) {
            wins = ns < elementNs ? wins + 1 : 0;
            warm = ++vectorCalls > CALLS_AT_MOST || vectorCalls > CALLS_TO_COMPILE && wins >= 3;
        } else {
            elementNs = ns;
        }
    }
}
