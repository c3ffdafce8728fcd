package dev.starling.tensor;

import dev.starling.tensor.cpu.Parallel;
import java.util.function.Supplier;

/**
 * How many threads an operation on the CPU may use: all processors unless the system property {@code starling.threads}
 * or one of these methods says otherwise. A run repeats bit for bit on the same number; on another, sums may round
 * differently. Idle threads sleep.
 */
public final class Threads {
    private Threads() {
    }

    /** Returns how many threads an operation of the current thread may use. */
    public static int count() {
        return Parallel.threads();
    }

    /**
     * Sets the number for the whole process.
     *
     * @throws TensorException if {@code count} is not 1 to 1024
     */
    public static void set(int count) {
        Parallel.setThreads(count);
    }

    /**
     * Runs {@code body} on this thread with a number of its own.
     *
     * @throws TensorException if {@code count} is not 1 to 1024
     */
    public static <T> T with(int count, Supplier<T> body) {
        return Parallel.withThreads(count, body);
    }
}
