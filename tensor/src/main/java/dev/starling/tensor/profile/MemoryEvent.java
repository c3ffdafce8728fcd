package dev.starling.tensor.profile;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/**
 * A cache of device memory allocated memory from the system, or freed some. Rare once a program's allocations repeat.
 */
@Name(MemoryEvent.NAME)
@Label("Device memory")
@Description("Memory was allocated from the system or freed")
@Category("Starling")
@StackTrace(true)
public final class MemoryEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Memory";
    private static final MemoryEvent PROBE = new MemoryEvent();

    @Label("Device")
    @Nullable String device;

    @Label("Action")
    @Description("allocate or trim")
    @Nullable String action;

    @Label("Size")
    @DataAmount
    long bytes;

    @Label("Live")
    @Description("Bytes in use before the request")
    @DataAmount
    long live;

    @Label("Cached")
    @Description("Bytes cached for reuse, without the requested ones")
    @DataAmount
    long cached;

    @Label("High-water mark")
    @Description("The largest number of bytes that were in use at one time")
    @DataAmount
    long peak;

    /** Emits an event, if a recording has enabled it, that {@code bytes} were allocated from the system or freed. */
    static void emit(String device, String action, long bytes, long live, long cached, long peak) {
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
