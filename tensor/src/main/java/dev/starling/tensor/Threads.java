package dev.starling.tensor;

import dev.starling.tensor.host.Parallel;
import java.util.function.Supplier;

/**
 * The number of threads that an operation on the CPU may use. The default is the number of processors; the system
 * property {@code starling.threads} and the methods of this class change it. A run repeats bit for bit with the same
 * number of threads; with another number, sums may round differently. Idle threads sleep.
 */
public final class Threads {
    private Threads() {
    }

    /** Returns the number of threads that an operation of the current thread may use. */
    public static int count() {
        return Parallel.threads();
    }

    /**
     * Sets the number of threads for the whole process.
     *
     * @throws TensorException if {@code count} is not 1 to 1024
     */
    public static void set(int count) {
        Parallel.setThreads(count);
    }

    /**
     * Runs {@code body} with a number of threads that applies to this thread only.
     *
     * @throws TensorException if {@code count} is not 1 to 1024
     */
    public static <T> T with(int count, Supplier<T> body) {
        return Parallel.withThreads(count, body);
    }
}
