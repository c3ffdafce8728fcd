package dev.starling.tensor.profile;

import jdk.jfr.FlightRecorder;

/**
 * Events of the library, if Flight Recorder records. Its first event takes a large part of a JVM's start, so that no
 * event's class is loaded before there is a recording.
 */
public final class Profiling {
    private Profiling() { }

    /** Returns whether a recording has enabled {@link OperationEvent}s. */
    public static boolean isOn() {
        return FlightRecorder.isInitialized() && OperationEvent.isOn();
    }

    /** Emits a {@link MemoryEvent}: that {@code bytes} were allocated from the system or freed. */
    public static void memory(String device, String action, long bytes, long live, long cached, long peak) {
        if (FlightRecorder.isInitialized()) {
            MemoryEvent.emit(device, action, bytes, live, cached, peak);
        }
    }
}
