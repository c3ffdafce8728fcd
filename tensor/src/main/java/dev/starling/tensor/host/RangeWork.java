package dev.starling.tensor.host;

/**
 * A kernel's work on a range of indices, which {@link #run()} divides among threads, any number of times. The kernels
 * of training steps have a class each: for a lambda that captures a new combination of types the JVM makes five
 * classes, which takes milliseconds, and a first step would have dozens.
 */
public abstract class RangeWork implements Runnable, RangeTask {
    private final long n;
    private final long grain;

    /**
     * Makes the work on {@code [0, n)}.
     *
     * @param grain the smallest number of indices that justifies a thread
     */
    protected RangeWork(long n, long grain) {
        this.n = n;
        this.grain = grain;
    }

    @Override
    public final void run() {
        Parallel.forRange(n, grain, this);
    }
}
