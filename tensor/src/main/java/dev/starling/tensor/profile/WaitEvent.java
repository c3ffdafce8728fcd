package dev.starling.tensor.profile;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** The host waited for a device. */
@Name(WaitEvent.NAME)
@Label("Device wait")
@Description("The host waited until a device had completed its work")
@Category("Starling")
@StackTrace(true)
public final class WaitEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Wait";
    private static final WaitEvent PROBE = new WaitEvent();

    @Label("Device")
    @Nullable String device;

    @Label("Reason")
    @Nullable String reason;

    /**
     * Begins the event of a wait, which {@link #done} ends and emits; returns {@code null} if no recording has enabled
     * it.
     */
    static @Nullable WaitEvent started() {
        if (!PROBE.isEnabled()) {
            return null;
        }
        WaitEvent event = new WaitEvent();
        event.begin();
        return event;
    }

    /** Ends and emits the event. */
    public void done(String newDevice, String newReason) {
        device = newDevice;
        reason = newReason;
        commit();
    }
}
