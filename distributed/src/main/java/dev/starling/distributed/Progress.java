package dev.starling.distributed;

import dev.starling.transport.Transport;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;

/**
 * Who does a group's work: a thread in the background, so that peers hear from this process and collectives go on while
 * it computes, and in its place whoever waits, so that an answer needs no change of threads. Both take turns at a lock.
 */
final class Progress implements AutoCloseable {
    private static final long SPIN_NS = 5_000;
    private static final long YIELD_NS = 20_000;
    private static final long SLEEP_NS = 500_000;
    /** While somebody else works: the longer that has been so, the longer. Who has long waited wakes the thread. */
    private static final long MIN_RELIEF_NS = 2_000_000;
    private static final long MAX_RELIEF_NS = 16_000_000;
    private static final long BUSY_SLEEP_NS = 20_000;
    private static final long CLOSING_MS = 10_000;

    private final Transport transport;
    private final IntSupplier work;
    private final BooleanSupplier busy;
    private final long longestReliefNs;
    private final ReentrantLock lock = new ReentrantLock();
    private final Thread thread;
    private volatile int waiting;
    /** Numbers the waits, under the lock. */
    private volatile long waits;
    private volatile boolean closed;
    private volatile Throwable failure;

    /**
     * Makes it.
     *
     * @param work does some of the group's work and returns how much
     * @param busy whether there is work under way that the background thread should be quick about
     * @param background whether there is a thread; in a simulation only those who wait work
     */
    Progress(Transport transport, IntSupplier work, BooleanSupplier busy, boolean background, String name) {
        this(transport, work, busy, background, name, MAX_RELIEF_NS);
    }

    /** As above, where the thread in the background leaves the work to others for another time at most. */
    Progress(Transport transport, IntSupplier work, BooleanSupplier busy, boolean background, String name,
            long longestReliefNs) {
        this.transport = transport;
        this.work = work;
        this.busy = busy;
        this.longestReliefNs = longestReliefNs;
        thread = background ? Thread.ofPlatform().daemon().name(name).start(this::run) : null;
    }

    private void run() {
        long lastWork = System.nanoTime();
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
            long now = System.nanoTime();
            if (waiting > 0) {
                reliefNs = relievedBy == waits ? Math.min(2 * reliefNs, longestReliefNs) : MIN_RELIEF_NS;
                relievedBy = waits;
                LockSupport.parkNanos(this, reliefNs);
                continue;
            }
            if (done > 0) {
                lastWork = now;
            } else if (busy.getAsBoolean()) {
                pause(now - lastWork);
            } else {
                LockSupport.parkNanos(this, SLEEP_NS);
            }
        }
    }

    private static void pause(long idleNs) {
        if (idleNs < SPIN_NS) {
            Thread.onSpinWait();
        } else if (idleNs < YIELD_NS) {
            Thread.yield();
        } else {
            LockSupport.parkNanos(BUSY_SLEEP_NS);
        }
    }

    /** Tells the thread in the background that there is work. */
    void wake() {
        if (thread != null && waiting == 0) {
            LockSupport.unpark(thread);
        }
    }

    /** Runs something while nobody else works. */
    void locked(Runnable action) {
        lock.lock();
        try {
            action.run();
        } finally {
            lock.unlock();
        }
    }

    /** Does some work, unless somebody else is at it; for those who compute where there is no background thread. */
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

    /** Works until something holds; returns whether it did in time. */
    boolean await(BooleanSupplier condition, Duration atMost) {
        if (condition.getAsBoolean()) {
            return true;
        }
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
                if (now - begin > atMost.toNanos()) {
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
                if (!thread.join(Duration.ofMillis(CLOSING_MS))) {
                    throw new DistributedException(thread.getName() + " does not end");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
