package dev.starling.tensor.profile;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** The host waited for a device. */
@Name(WaitEvent.NAME)
@Label("Device wait")
@Description("The host waited until a device had done what was asked of it")
@Category("Starling")
@StackTrace(true)
public final class WaitEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Wait";
    private static final WaitEvent PROBE = new WaitEvent();

    @Label("Device")
    String device;

    @Label("Reason")
    String reason;

    /** Runs what waits, and tells a recording, if one listens, how long it took. */
    public static void during(String device, String reason, Runnable wait) {
        if (!PROBE.isEnabled()) {
            wait.run();
            return;
        }
        WaitEvent event = new WaitEvent();
        event.begin();
        try {
            wait.run();
        } finally {
            event.device = device;
            event.reason = reason;
            event.commit();
        }
    }
}
