package dev.starling.tensor.spi;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Update;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/** Carries out operations on one device. Thread-safe. */
public interface Backend {
    /** Returns the device's memory allocator. */
    Allocator memory();

    /** Returns whether the host can read and write the device's memory at its addresses. */
    boolean hostVisible();

    /**
     * Carries out {@code op} and returns its outputs, allocated with {@link Storage#allocate}; an operation that works
     * in place ({@link dev.starling.tensor.op.Update}) returns none.
     *
     * @param inputs operands from {@link Tensor#apply}: open, on this device, checked by {@code infer}
     * @param outputs what {@code infer} returned
     */
    Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs);

    /**
     * Prepares {@code op} to be carried out again and again on the same memory: what depends on the operands' layouts
     * and addresses is determined once. A run does what {@link #run} does, bit for bit, but makes no tensors: it must
     * not call {@link Storage#allocate}, and owns the scratch memory that it needs.
     *
     * @param inputs operands of an earlier {@link #run}
     * @param results its results, whose elements each run of the returned object writes anew
     * @return to be run while no operand's or result's memory is freed or moved, by one thread at a time; {@code null}
     *     if {@link #run} is to be called
     */
    default @Nullable Runnable prepare(Op op, Tensor[] inputs, Tensor[] results) {
        return null;
    }

    /**
     * Carries out updates from {@link Tensor#applyAll}: open, on this device, checked by {@code infer}.
     *
     * @param guard one floating number on this device, or {@code null}; if it is infinite or NaN, no update changes
     *     anything
     */
    default void updateAll(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        if (guard != null && !Double.isFinite(guard.item())) {
            return;
        }
        for (int i = 0; i < ops.length; i++) {
            run(ops[i], operands[i], Update.NO_OUTPUTS);
        }
    }

    /** Returns whether all elements of a tensor of this device are finite; waits for the device. */
    default boolean isFinite(Tensor x) {
        try (Scope scope = Scope.open("finite")) {
            return x.isFinite().all().item() != 0;
        }
    }

    /**
     * Returns whether convolutions on this device read {@link ChannelsLast} weights fastest, and give their gradients
     * that layout; weights in another layout then cost a copy in each pass.
     */
    default boolean convolvesChannelsLast() {
        return false;
    }

    /**
     * Returns the size in bytes of a reserve whose format is this device's own, for a recurrent layer that keeps one:
     * the reserve is then u8 of that size. The result depends only on the operands.
     *
     * @param operands the checked operands of a later {@link #run}
     * @return 0 for the format that {@link Recurrence} defines
     */
    default long reserveBytes(Recurrence.Forward op, Spec... operands) {
        return 0;
    }

    /** Returns the collectives between this device and others of its kind, or {@code null}. */
    default @Nullable DeviceCollectives collectives() {
        return null;
    }

    /** Copies {@code bytes} from host memory to this device's; returns when the host memory may change again. */
    void upload(long hostAddress, long deviceAddress, long bytes);

    /** Copies {@code bytes} from this device's memory to the host's; returns when the copy is complete. */
    void download(long deviceAddress, long hostAddress, long bytes);

    /**
     * Records the device work that the parts would queue, without running it (graph capture). All parts have run
     * before, at the same addresses, which remain valid and unshared as long as the recording is open.
     *
     * @param parts number of parts
     * @param part runs the host code of one part
     * @return the recording, or {@code null} if this device does not record, or if a part waits for the device
     */
    default @Nullable Recording record(int parts, IntConsumer part) {
        return null;
    }

    /** Makes an uploader, whose copies overlap the device's other work if the device supports that. */
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
     * Registers host memory for copies that the device makes asynchronously; on a device without such copies, the host
     * waits for each. The memory must stay valid until the result is closed.
     */
    default PinnedMemory pin(long hostAddress, long bytes) {
        return new UnpinnedMemory(this, hostAddress);
    }

    /**
     * Makes one kernel of a chain of elementwise operations; its results may differ from theirs by rounding.
     *
     * @return {@code null} if the operations are to be carried out separately
     */
    default Chain.@Nullable Kernel fuse(Chain chain) {
        return null;
    }

    /**
     * Returns how often kernels of this device have copied an operand or a result to another memory layout, for all
     * threads since the process began; 0 on a device that does not count.
     */
    default long reorders() {
        return 0;
    }

    /** Returns whether chains may have 16-bit results between their operations, rounded as if they were stored. */
    default boolean fusesHalves() {
        return false;
    }
}
