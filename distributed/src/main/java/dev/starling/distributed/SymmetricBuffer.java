package dev.starling.distributed;

import java.lang.foreign.MemorySegment;

/**
 * Registered memory of the same size on every rank, on which collectives work in place. A buffer belongs to the epoch
 * in which it was created. In the next epoch, whose members may be others, it can only be read: a collective on it
 * throws a {@link MembershipChangedException}.
 */
public interface SymmetricBuffer extends AutoCloseable {
    /** Returns this rank's memory, initially zero and aligned to pages. */
    MemorySegment memory();

    /** Returns the size in bytes on each rank. */
    long bytes();

    /**
     * Releases the memory. A collective on it that is in progress, or starts later, fails, and with it all others of
     * the epoch, on all ranks. Not a collective call.
     */
    @Override
    void close();
}
