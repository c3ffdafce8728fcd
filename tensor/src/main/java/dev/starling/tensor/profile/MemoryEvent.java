package dev.starling.tensor.profile;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A cache of device memory asked the system for more, or gave some back. Rare once a program is in its stride. */
@Name(MemoryEvent.NAME)
@Label("Device memory")
@Description("Memory was asked of the system or given back to it")
@Category("Starling")
@StackTrace(true)
public final class MemoryEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Memory";
    private static final MemoryEvent PROBE = new MemoryEvent();

    @Label("Device")
    String device;

    @Label("Action")
    @Description("allocate or trim")
    String action;

    @Label("Size")
    @DataAmount
    long bytes;

    @Label("Live")
    @Description("Bytes lent out before")
    @DataAmount
    long live;

    @Label("Cached")
    @Description("Bytes held for reuse, without what was asked for")
    @DataAmount
    long cached;

    @Label("High-water mark")
    @Description("The most bytes that were ever lent out at once")
    @DataAmount
    long peak;

    /** Tells a recording, if one listens, that {@code bytes} were allocated or given back. */
    public static void emit(String device, String action, long bytes, long live, long cached, long peak) {
        if (PROBE.isEnabled()) {
            MemoryEvent event = new MemoryEvent();
            event.device = device;
            event.action = action;
            event.bytes = bytes;
            event.live = live;
            event.cached = cached;
            event.peak = peak;
            event.commit();
        }
    }
}
