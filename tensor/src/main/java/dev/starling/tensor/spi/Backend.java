package dev.starling.tensor.spi;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Update;
import java.util.function.IntConsumer;

/** Carries out operations on one device. Safe for use by several threads. */
public interface Backend {
    /** What an operation that works in place puts out. */
    Spec[] NO_OUTPUTS = {};

    /** Returns the device's memory. */
    Allocator memory();

    /** Tells whether the host can read and write the device's memory at its addresses. */
    boolean hostVisible();

    /**
     * Carries out {@code op} and returns its outputs, allocated with {@link Tensor#allocate}; an op that works in place
     * ({@link dev.starling.tensor.op.Update}) returns none.
     *
     * @param inputs operands as they came through {@link Tensor#apply}: open, on this device, checked by {@code infer}
     * @param outputs what {@code infer} returned
     */
    Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs);

    /**
     * Carries out updates that came through {@link Tensor#applyAll}: open, on this device, checked by {@code infer}.
     *
     * @param guard one floating number on this device, or {@code null}; where it is infinite or NaN, nothing is changed
     */
    default void updateAll(Update[] ops, Tensor[][] operands, Tensor guard) {
        if (guard != null && !Double.isFinite(guard.item())) {
            return;
        }
        for (int i = 0; i < ops.length; i++) {
            run(ops[i], operands[i], NO_OUTPUTS);
        }
    }

    /** Tells whether all elements of a tensor of this device are finite; waits for the device. */
    default boolean isFinite(Tensor x) {
        try (Scope scope = Scope.open("finite")) {
            return x.isFinite().all().item() != 0;
        }
    }

    /**
     * Tells whether convolutions read weights fastest where they lie {@link ChannelsLast}, and make their gradients so;
     * others then cost a copy in each pass.
     */
    default boolean convolvesChannelsLast() {
        return false;
    }

    /**
     * Returns how many bytes a recurrent layer that keeps its reserve keeps in a form of this device's own: its reserve
     * is then u8 of that size. The same operands are always answered the same.
     *
     * @param operands checked, as {@link #run} will be given them
     * @return 0 for the form that {@link Recurrence} defines
     */
    default long reserveBytes(Recurrence.Forward op, Spec... operands) {
        return 0;
    }

    /** Returns what connects this device to others of its kind, or {@code null}. */
    default DeviceCollectives collectives() {
        return null;
    }

    /** Copies {@code bytes} from host memory to this device's; returns when the host memory may change again. */
    void upload(long hostAddress, long deviceAddress, long bytes);

    /** Copies {@code bytes} from this device's memory to the host's; returns when they are there. */
    void download(long deviceAddress, long hostAddress, long bytes);

    /**
     * Takes down what the parts of a piece of work queue, without doing it. Everything has been run before, at the same
     * addresses, which stay the work's own as long as the recording is open.
     *
     * @param parts how many there are
     * @param part runs the host code of one
     * @return the recording, or {@code null} if this device takes nothing down, or something that waits for it
     */
    default Recording record(int parts, IntConsumer part) {
        return null;
    }

    /** Makes an uploader, whose copies run beside the device's other work where the device can do that. */
    default Uploader uploader() {
        return new Uploader() {
            @Override
            public void lend() { }

            @Override
            public void copy(long hostAddress, long deviceAddress, long bytes) {
                upload(hostAddress, deviceAddress, bytes);
            }

            @Override
            public void await() { }
        };
    }

    /**
     * Lets the device copy to and from memory of the host by itself; where it cannot, the host waits for each copy.
     * The memory stays until that is closed.
     */
    default PinnedMemory pin(long hostAddress, long bytes) {
        return new UnpinnedMemory(this, hostAddress);
    }

    /**
     * Makes one kernel of a chain of elementwise operations, whose results differ from theirs by rounding at most.
     *
     * @return {@code null} if the operations are to be carried out one by one
     */
    default Chain.Kernel fuse(Chain chain) {
        return null;
    }

    /** Tells whether chains may have results of 16 bits between their operations, rounded as if they were stored. */
    default boolean fusesHalves() {
        return false;
    }
}
