package dev.starling.tensor.profile;

import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;

/**
 * Events of the library, if Flight Recorder records. Its first event takes a large part of a JVM's start, so that no
 * event's class is loaded before there is a recording. On the class path the module {@code jdk.jfr} may be missing.
 */
public final class Profiling {
    private static final boolean PRESENT = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

    private Profiling() { }

    /** Returns whether a recording has enabled {@link OperationEvent}s. */
    public static boolean isOn() {
        return isRecording() && OperationEvent.isOn();
    }

    private static boolean isRecording() {
        return PRESENT && FlightRecorder.isInitialized();
    }

    /** Begins the event of a wait; returns {@code null} if no recording has enabled it. */
    public static @Nullable WaitEvent startedWait() {
        return isRecording() ? WaitEvent.started() : null;
    }

    /** Emits a {@link MemoryEvent}: that {@code bytes} were allocated from the system or freed. */
    public static void memory(String device, String action, long bytes, long live, long cached, long peak) {
        if (isRecording()) {
            MemoryEvent.emit(device, action, bytes, live, cached, peak);
        }
    }
}
