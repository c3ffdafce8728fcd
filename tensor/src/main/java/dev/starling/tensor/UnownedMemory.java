package dev.starling.tensor;

import dev.starling.errors.ThreadException;
import java.lang.ref.Cleaner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * Bounds the memory of tensors that no scope owns and that wait for the garbage collector. The collector sees only
 * their small objects on the heap, and may not run while their memory grows. When it has grown by {@link #step} above
 * its lowest level since the last collection, the thread that makes the next such tensor requests a collection and
 * waits until the cleaner has freed what is unreachable. Parameters, which stay reachable, raise that level. Tensors
 * that a scope owns are not counted: a training step pays nothing.
 */
final class UnownedMemory {
    /** The smallest growth, as a part of the maximum heap. */
    private static final long MIN_STEP = Math.max(16 << 20, Runtime.getRuntime().maxMemory() / 4);
    /** How long a thread waits for the collector and the cleaner; both may be switched off or slow. */
    private static final long TIMEOUT_MS = 500;
    private static final long POLL_NANOS = 1_000_000;

    private static final AtomicLong BYTES = new AtomicLong();
    private static final ReentrantLock COLLECTING = new ReentrantLock();
    /** The lowest level since the last collection. Threads may overwrite each other's value: the bound is soft. */
    private static volatile long floor;
    /** {@code null} before its thread has started. */
    private static volatile @Nullable Cleaner cleaner;

    private UnownedMemory() {
    }

    /** Returns the bytes of all open tensors that no scope owns. */
    static long bytes() {
        return BYTES.get();
    }

    /** Returns how far memory may grow above a level before a collection. */
    static long step(long level) {
        return Math.max(MIN_STEP, level / 2);
    }

    /**
     * Returns the cleaner that frees such memory.
     *
     * @throws ThreadException if its thread cannot start; the next call tries again
     */
    static Cleaner cleaner() {
        Cleaner present = cleaner;
        return present == null ? startCleaner() : present;
    }

    private static synchronized Cleaner startCleaner() {
        Cleaner present = cleaner;
        if (present == null) {
            try {
                present = Cleaner.create();
            } catch (OutOfMemoryError e) {
                throw new ThreadException("of the cleaner of memory", e);
            }
            cleaner = present;
        }
        return present;
    }

    /** Counts memory that no scope owns from now on. May collect garbage. */
    static void add(long bytes) {
        long level = floor;
        if (BYTES.addAndGet(bytes) > level + step(level)) {
            collect();
        }
    }

    /** Counts memory that was freed or has got a scope. */
    static void remove(long bytes) {
        long now = BYTES.addAndGet(-bytes);
        if (now < floor) {
            floor = now;
        }
    }

    private static void collect() {
        COLLECTING.lock();
        try {
            if (BYTES.get() <= floor + step(floor)) {
                return; // another thread has collected meanwhile
            }
            CountDownLatch collected = new CountDownLatch(1);
            cleaner().register(new Object(), collected::countDown);
            System.gc();
            if (awaitCleaner(collected)) {
                long before;
                do {
                    before = BYTES.get();
                    LockSupport.parkNanos(POLL_NANOS);
                } while (BYTES.get() < before);
            }
            floor = BYTES.get();
        } finally {
            COLLECTING.unlock();
        }
    }

    /** Returns whether the cleaner has begun to free what the collection found; false if it does not run. */
    private static boolean awaitCleaner(CountDownLatch collected) {
        try {
            return collected.await(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
