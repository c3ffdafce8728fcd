package dev.starling.cuda.gpu;

import dev.starling.tensor.profile.WaitEvent;

/** Waits of the host that a profile shows. */
public final class Waits {
    private Waits() { }

    /** Waits for an event. */
    public static void await(Gpu gpu, Gpu.Event event, String reason) {
        WaitEvent wait = WaitEvent.started();
        gpu.await(event);
        if (wait != null) {
            wait.done(gpu.name(), reason);
        }
    }

    /** Waits for all that was queued on a stream. */
    public static void synchronize(Gpu gpu, Gpu.Stream stream, String reason) {
        WaitEvent wait = WaitEvent.started();
        gpu.synchronize(stream);
        if (wait != null) {
            wait.done(gpu.name(), reason);
        }
    }
}
