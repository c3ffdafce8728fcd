package dev.starling.transport.spi;

import java.util.concurrent.locks.LockSupport;

/**
 * How an idle thread waits: it spins for as long as the answer may arrive within a round trip, then yields, then sleeps
 * before repeated yielding takes a processor from threads that work. Where threads outnumber processors, spinning would
 * keep the awaited thread from running, so there the thread yields immediately.
 */
public final class Waiting {
    private static final long SPIN_NS = 20_000;
    private static final long YIELD_NS = 100_000;
    private static final long MIN_SLEEP_NS = 20_000;
    private static final long MAX_SLEEP_NS = 500_000;

    private final long spinNs;

    private Waiting(long spinNs) {
        this.spinNs = spinNs;
    }

    /** Returns the way of waiting for a number of busy threads on this machine. */
    public static Waiting forThreads(int busyThreads) {
        return new Waiting(busyThreads <= Runtime.getRuntime().availableProcessors() ? SPIN_NS : 0);
    }

    /** Returns whether a thread that can be woken should sleep by now: early where others need the processor. */
    public boolean shouldSleep(long idleNs) {
        return idleNs >= (spinNs > 0 ? YIELD_NS : SPIN_NS);
    }

    /** Lets a moment pass. */
    public void idle(long idleNs) {
        if (idleNs < spinNs) {
            Thread.onSpinWait();
        } else if (idleNs < YIELD_NS) {
            Thread.yield();
        } else {
            LockSupport.parkNanos(Math.clamp(idleNs / 64, MIN_SLEEP_NS, MAX_SLEEP_NS));
        }
    }
}
