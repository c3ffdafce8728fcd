package dev.starling.transport.simulated;

import org.jspecify.annotations.Nullable;

/** One thread of control of a simulated process. */
final class Flow {
    final SimulatedProcess process;
    /** In the order of their start. */
    final long number;
    /** Set before the flow is scheduled. */
    @SuppressWarnings("NullAway.Init")
    Coroutine coroutine;
    /** {@code null} while it sleeps. */
    @Nullable SimulatedWire waitsOn;
    long untilNs;
    /** When it wakes, as the {@link RunQueue} knows, if it is {@link #queued} there. */
    long dueNs;
    boolean queued;
    int unwindings;
    @Nullable Unwinding unwinding;
    @Nullable Throwable failure;

    Flow(SimulatedProcess process, long number) {
        this.process = process;
        this.number = number;
    }

    long wakeNs() {
        if (process.endReason != null) {
            return Long.MIN_VALUE;
        }
        if (process.pauses > 0) {
            return Long.MAX_VALUE;
        }
        return waitsOn == null ? untilNs : Math.min(untilNs, waitsOn.nextArrivalNs());
    }
}
