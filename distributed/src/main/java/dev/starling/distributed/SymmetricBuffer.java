package dev.starling.distributed;

import dev.starling.distributed.collective.SymmetricMemory;
import java.lang.foreign.MemorySegment;

/**
 * Registered memory of the same size on every rank, which collectives work on in place. Belongs to the epoch it was
 * made in: in the next one, others may be there, and this buffer is of no use but for reading.
 */
public final class SymmetricBuffer implements AutoCloseable {
    private final Group group;
    private final SymmetricMemory memory;

    SymmetricBuffer(Group group, SymmetricMemory memory) {
        this.group = group;
        this.memory = memory;
    }

    /** Returns this rank's memory, zeroed at first, aligned to pages. */
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

    /** Gives the memory back; no collective may be under way on it. Not collective. */
    @Override
    public void close() {
        group.locked(memory::close);
    }
}
