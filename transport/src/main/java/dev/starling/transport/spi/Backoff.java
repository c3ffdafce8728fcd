package dev.starling.transport.spi;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.IdleStrategy;

/**
 * How a thread that polls waits while it finds nothing to do: it spins for as long as the answer may arrive within a
 * round trip, then yields, then sleeps before repeated yielding takes a processor from threads that work. The stages
 * depend on elapsed time, unlike those of Agrona's {@code BackoffIdleStrategy}, which count calls: the duration of a
 * call depends on what is polled. Immutable, so that several threads may wait on one wire.
 *
 * @param spinNs how long the thread spins
 * @param yieldNs from when on it sleeps; it yields between the two
 * @param minSleepNs minimum duration of a sleep, which is 1/64 of the time for which the thread has been idle
 * @param maxSleepNs maximum duration of a sleep
 */
public record Backoff(long spinNs, long yieldNs, long minSleepNs, long maxSleepNs) {
    private static final long SPIN_NS = TimeUnit.MICROSECONDS.toNanos(20);
    private static final long YIELD_NS = TimeUnit.MICROSECONDS.toNanos(100);
    private static final long MIN_SLEEP_NS = TimeUnit.MICROSECONDS.toNanos(20);
    private static final long MAX_SLEEP_NS = TimeUnit.MICROSECONDS.toNanos(500);
    private static final int IDLE_PER_SLEEP = 64;

    /**
     * Returns the way in which a caller waits for a peer while a number of threads of this machine are busy. Where
     * threads outnumber processors, spinning would keep the awaited thread from running, so there the thread yields
     * immediately.
     */
    public static Backoff forThreads(int busyThreads) {
        return new Backoff(busyThreads <= Runtime.getRuntime().availableProcessors() ? SPIN_NS : 0, YIELD_NS,
                MIN_SLEEP_NS, MAX_SLEEP_NS);
    }

    /** Returns whether a thread that can be woken should sleep by now: early where others need the processor. */
    public boolean shouldSleep(long idleNs) {
        return idleNs >= (spinNs > 0 ? yieldNs : SPIN_NS);
    }

    /** Lets a moment pass, after {@code idleNs} without work. */
    public void pause(long idleNs) {
        if (idleNs < spinNs) {
            Thread.onSpinWait();
        } else if (idleNs < yieldNs) {
            Thread.yield();
        } else {
            park(Math.clamp(idleNs / IDLE_PER_SLEEP, minSleepNs, maxSleepNs));
        }
    }

    /**
     * Parks this thread as {@link LockSupport#parkNanos(long)}, also if it is interrupted, and keeps the interrupt:
     * otherwise each wait of an interrupted thread would end at once.
     */
    public static void park(long ns) {
        boolean interrupted = Thread.interrupted();
        if (interrupted) {
            // An interrupt ends the next park, too.
            LockSupport.parkNanos(1);
        }
        LockSupport.parkNanos(ns);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Returns a strategy for the loop of one thread. It measures the time from the first idle call after work;
     * {@link LockSupport#unpark} ends a sleep.
     */
    public IdleStrategy strategy() {
        return new Elapsed(this);
    }

    private static final class Elapsed implements IdleStrategy {
        private final Backoff backoff;
        private boolean idle;
        private long sinceNs;

        Elapsed(Backoff backoff) {
            this.backoff = backoff;
        }

        @Override
        public void idle(int workCount) {
            if (workCount > 0) {
                reset();
            } else {
                idle();
            }
        }

        @Override
        public void idle() {
            long now = System.nanoTime();
            if (!idle) {
                idle = true;
                sinceNs = now;
            }
            backoff.pause(now - sinceNs);
        }

        @Override
        public void reset() {
            idle = false;
        }
    }
}
