package dev.starling.cuda.gpu;

import dev.starling.tensor.profile.Profiling;
import dev.starling.tensor.profile.WaitEvent;

/** Blocking waits of the host, which a profile shows. */
public final class Waits {
    private Waits() { }

    /** Blocks until an event completes. */
    public static void await(Gpu gpu, Gpu.Event event, String reason) {
        WaitEvent wait = Profiling.startedWait();
        gpu.await(event);
        if (wait != null) {
            wait.done(gpu.name(), reason);
        }
    }

    /** Blocks until all work queued on a stream is done. */
    public static void synchronize(Gpu gpu, Gpu.Stream stream, String reason) {
        WaitEvent wait = Profiling.startedWait();
        gpu.synchronize(stream);
        if (wait != null) {
            wait.done(gpu.name(), reason);
        }
    }
}
