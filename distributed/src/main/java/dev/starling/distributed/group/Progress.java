package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.errors.ThreadException;
import dev.starling.transport.Transport;
import dev.starling.transport.spi.Backoff;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import org.agrona.concurrent.IdleStrategy;
import org.jspecify.annotations.Nullable;

/**
 * Drives a group's work. A background thread does it while the process computes, so that heartbeats are sent and
 * collectives progress. A caller that waits does it instead of the background thread, so that an answer needs no change
 * of threads. A lock excludes one from the other.
 */
final class Progress implements AutoCloseable {
    /** Between two polls while work is in progress. */
    private static final Backoff BUSY = new Backoff(5_000, 20_000, 20_000, 20_000);
    /** While no work is in progress; {@link #wake} ends it. */
    private static final long SLEEP_NS = 500_000;
    /**
     * How long the background thread parks while a caller does the work. The time doubles as long as the same caller
     * waits; a caller that has waited long wakes the thread when it returns.
     */
    private static final long MIN_RELIEF_NS = 2_000_000;
    static final long MAX_RELIEF_NS = 16_000_000;
    private static final long CLOSE_TIMEOUT_MS = 10_000;

    private final Transport transport;
    private final IntSupplier work;
    private final BooleanSupplier busy;
    private final long maxReliefNs;
    private final ReentrantLock lock = new ReentrantLock();
    /** {@code null} without a background thread. */
    private final @Nullable Thread thread;
    private volatile int waiting;
    /** Number of calls that have waited; changed under the lock. */
    private volatile long waits;
    private volatile boolean closed;
    /** What ended the background thread, or {@code null}. */
    private volatile @Nullable Throwable failure;

    /**
     * Creates the driver, and starts its thread.
     *
     * @param work does some of the group's work and returns the amount
     * @param busy whether work is in progress, so that the background thread should poll at short intervals
     * @param background whether there is a background thread; in a simulation only waiting callers do the work
     * @param maxReliefNs how long the background thread parks, at most, while a caller does the work
     */
    Progress(Transport transport, IntSupplier work, BooleanSupplier busy, boolean background, String name,
            long maxReliefNs) {
        this.transport = transport;
        this.work = work;
        this.busy = busy;
        this.maxReliefNs = maxReliefNs;
        thread = background ? ThreadException.start(Thread.ofPlatform().daemon().name(name).unstarted(this::run))
                : null;
    }

    private void run() {
        IdleStrategy polling = BUSY.strategy();
        long reliefNs = MIN_RELIEF_NS;
        long relievedBy = 0;
        while (!closed) {
            int done = 0;
            if (waiting == 0) {
                try {
                    done = workAlone();
                } catch (Throwable e) {
                    failure = e;
                    return;
                }
            }
            if (waiting > 0) {
                reliefNs = relievedBy == waits ? Math.min(2 * reliefNs, maxReliefNs) : MIN_RELIEF_NS;
                relievedBy = waits;
                Backoff.park(reliefNs);
                continue;
            }
            if (done > 0 || busy.getAsBoolean()) {
                polling.idle(done);
            } else {
                Backoff.park(SLEEP_NS);
            }
        }
    }

    /** Wakes the background thread because there is work. */
    void wake() {
        if (thread != null && waiting == 0) {
            LockSupport.unpark(thread);
        }
    }

    /** Runs an action under the lock: no other thread does work meanwhile. */
    void locked(Runnable action) {
        lock.lock();
        try {
            action.run();
        } finally {
            lock.unlock();
        }
    }

    /** As {@link #locked}, for an action with a result. */
    <T> T get(Supplier<T> action) {
        lock.lock();
        try {
            return action.get();
        } finally {
            lock.unlock();
        }
    }

    /** Does some work, unless another thread is doing it. For callers that compute without a background thread. */
    int doWork() {
        rethrow();
        return workAlone();
    }

    private int workAlone() {
        if (!lock.tryLock()) {
            return 0;
        }
        try {
            return closed ? 0 : work.getAsInt();
        } finally {
            lock.unlock();
        }
    }

    /** Works until a condition holds; returns whether it holds in time. */
    boolean await(BooleanSupplier condition, Duration atMost) {
        if (condition.getAsBoolean()) {
            return true;
        }
        // Also for a duration of more nanoseconds than a long can hold.
        long limitNs = TimeUnit.NANOSECONDS.convert(atMost);
        long begin = transport.nanoTime();
        long lastWork = begin;
        lock.lock();
        waiting++;
        waits++;
        lock.unlock();
        try {
            while (!condition.getAsBoolean()) {
                if (doWork() > 0) {
                    lastWork = transport.nanoTime();
                    continue;
                }
                long now = transport.nanoTime();
                if (now - begin > limitNs) {
                    return condition.getAsBoolean();
                }
                transport.idle(now - lastWork);
            }
            return true;
        } finally {
            lock.lock();
            waiting--;
            lock.unlock();
            if (busy.getAsBoolean() || transport.nanoTime() - begin > MIN_RELIEF_NS) {
                wake();
            }
        }
    }

    private void rethrow() {
        Throwable e = failure;
        if (e != null) {
            throw new DistributedException("the background thread failed: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        closed = true;
        if (thread != null && thread != Thread.currentThread()) {
            LockSupport.unpark(thread);
            try {
                if (!thread.join(Duration.ofMillis(CLOSE_TIMEOUT_MS))) {
                    throw new DistributedException("thread " + thread.getName() + " did not end within "
                            + CLOSE_TIMEOUT_MS + " ms");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
