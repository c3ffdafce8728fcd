package dev.starling.transport.simulated;

/** One thread of control of a simulated process. */
final class Flow {
    final SimulatedProcess process;
    Coroutine coroutine;
    SimulatedWire waitsOn;
    long untilNs;
    int unwindings;
    Unwinding unwinding;
    Throwable failure;

    Flow(SimulatedProcess process) {
        this.process = process;
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
