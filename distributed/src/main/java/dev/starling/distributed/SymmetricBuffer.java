package dev.starling.distributed;

import dev.starling.distributed.collective.call.SymmetricMemory;
import java.lang.foreign.MemorySegment;

/**
 * Registered memory of the same size on every rank, on which collectives work in place. A buffer belongs to the epoch
 * in which it was created. In the next epoch, whose members may be others, it can only be read.
 */
public final class SymmetricBuffer implements AutoCloseable {
    private final Group group;
    private final SymmetricMemory memory;

    SymmetricBuffer(Group group, SymmetricMemory memory) {
        this.group = group;
        this.memory = memory;
    }

    /** Returns this rank's memory, initially zero and aligned to pages. */
    public MemorySegment memory() {
        return memory.own();
    }

    /** Returns the size in bytes on each rank. */
    public long bytes() {
        return memory.bytes();
    }

    SymmetricMemory symmetric() {
        return memory;
    }

    /** Releases the memory; no collective may be using it. Not a collective call. */
    @Override
    public void close() {
        group.locked(memory::close);
    }
}
