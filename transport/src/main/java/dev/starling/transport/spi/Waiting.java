package dev.starling.transport.spi;

import java.util.concurrent.locks.LockSupport;

/**
 * How threads wait that have nothing to do: they spin for as long as the answer may come within a round trip, then
 * give way, then sleep, before giving way again and again takes a processor from those who work. Where threads
 * outnumber processors, spinning keeps the one that is waited for from running, so there they give way at once.
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

    /** Returns the way of waiting for so many busy threads on this machine. */
    public static Waiting forThreads(int busyThreads) {
        return new Waiting(busyThreads <= Runtime.getRuntime().availableProcessors() ? SPIN_NS : 0);
    }

    /** Returns whether one who will be woken sleeps by then: soon, where others need the processor. */
    public boolean isToSleep(long idleNs) {
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
