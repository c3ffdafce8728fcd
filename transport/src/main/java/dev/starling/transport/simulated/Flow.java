package dev.starling.transport.simulated;

import java.util.Set;
import org.jspecify.annotations.Nullable;

/** One thread of control of a simulated process. */
final class Flow {
    private static final Set<String> OWN_CODE = Set.of(Simulation.class.getName(), SimulatedWire.class.getName(),
            Coroutine.class.getName(), "java.lang.VirtualThread");

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

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(process.name).append(process.pauses > 0 ? " (paused)" : "")
                .append(" is at");
        if (unwinding != null) {
            for (StackTraceElement element : unwinding.getStackTrace()) {
                if (!OWN_CODE.contains(element.getClassName())) {
                    text.append("\n    at ").append(element);
                }
            }
        }
        return text.toString();
    }

    /** Returns when it can run again. */
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
