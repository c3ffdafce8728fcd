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

/** An operation, from when its operands have been checked to when its backend returns; what a GPU then does follows. */
@Name(OperationEvent.NAME)
@Label("Tensor operation")
@Description("An operation on a device, as long as the host was busy with it")
@Category("Starling")
@StackTrace(false)
public final class OperationEvent extends Event {
    /** The event's name in a recording. */
    public static final String NAME = "starling.Operation";
    private static final OperationEvent PROBE = new OperationEvent();

    @Label("Operation")
    String operation;

    @Label("Device")
    String device;

    @Label("Output")
    @Description("Type and shape of the first output, or of the operand that was changed")
    String output;

    @Label("Live")
    @Description("Bytes lent out after the operation")
    @DataAmount
    long live;

    @Label("Cached")
    @Description("Bytes held for reuse after the operation")
    @DataAmount
    long cached;

    @Label("High-water mark")
    @Description("The most bytes that were ever lent out at once")
    @DataAmount
    long peak;

    /** Tells whether a recording wants these events. */
    public static boolean isOn() {
        return PROBE.isEnabled();
    }

    /** Begins an operation's event, which {@link #done} ends; that of one that fails is dropped. */
    public static OperationEvent started() {
        OperationEvent event = new OperationEvent();
        event.begin();
        return event;
    }

    /** Ends the event; {@code result} is the first output, or the operand that was changed. */
    public void done(String newOperation, Spec result) {
        done(newOperation, result.device(), result);
    }

    /** Ends the event of what a device did; {@code result} says what came of it. */
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
