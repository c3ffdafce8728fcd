package dev.starling.tensor.profile;

import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.spi.MemoryUse;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/** An operation, from the check of its operands to the return of its backend; a GPU carries it out after that. */
@Name(OperationEvent.NAME)
@Label("Tensor operation")
@Description("An operation on a device, for the time that it kept the host busy")
@Category("Starling")
@StackTrace(false)
public final class OperationEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Operation";
    private static final OperationEvent PROBE = new OperationEvent();

    @Label("Operation")
    @Nullable String operation;

    @Label("Device")
    @Nullable String device;

    @Label("Output")
    @Description("Type and shape of the first output, or of the operand that was changed")
    @Nullable String output;

    @Label("Live")
    @Description("Bytes in use after the operation")
    @DataAmount
    long live;

    @Label("Cached")
    @Description("Bytes cached for reuse after the operation")
    @DataAmount
    long cached;

    @Label("High-water mark")
    @Description("The largest number of bytes that were in use at one time")
    @DataAmount
    long peak;

    /** Returns whether a recording has enabled these events; {@link Profiling#isOn} asks without loading this class. */
    static boolean isOn() {
        return PROBE.isEnabled();
    }

    /**
     * Begins the event of an operation, which {@link #done} ends and emits. The event of a failed operation is dropped.
     */
    public static OperationEvent started() {
        OperationEvent event = new OperationEvent();
        event.begin();
        return event;
    }

    /** Ends the event; {@code result} is the first output, or the operand that was changed. */
    public void done(String newOperation, Spec result) {
        done(newOperation, result.device(), result);
    }

    /** Ends and emits the event of work that a device did by itself; {@code result} describes its outcome. */
    public void done(String newOperation, Device on, Object result) {
        end();
        if (shouldCommit()) {
            MemoryUse use = on.memory();
            operation = newOperation;
            device = on.toString();
            output = result instanceof Spec spec ? spec.dtype() + " " + spec.shape() : result.toString();
            live = use.live();
            cached = use.cached();
            peak = use.peak();
            commit();
        }
    }
}
