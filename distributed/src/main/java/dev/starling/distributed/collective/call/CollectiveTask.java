package dev.starling.distributed.collective.call;

import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** A collective on elements in registered memory. */
public final class CollectiveTask extends Task {
    public final CollectiveCall call;
    /** Memory that contains the elements; a barrier accesses none. */
    public final SymmetricMemory memory;
    /** Offset of the elements, in bytes. */
    public final long offset;
    /** Returns whether the elements have arrived in memory; {@code null} if they have when the task is started. */
    private final @Nullable BooleanSupplier ready;

    public CollectiveTask(Runner runner, CollectiveCall call, SymmetricMemory memory, long offset,
            @Nullable BooleanSupplier ready) {
        super(runner);
        this.call = call;
        this.memory = memory;
        this.offset = offset;
        this.ready = ready;
    }

    public boolean isReady() {
        return ready == null || ready.getAsBoolean();
    }

    /** Returns whether elements may arrive after the task is started. */
    public boolean awaitsElements() {
        return ready != null;
    }

    @Override
    public String toString() {
        return call.toString();
    }
}
