package dev.starling.distributed.group;

import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.collective.call.SymmetricMemory;
import java.lang.foreign.MemorySegment;

/** A buffer that {@link GroupCollectives} has registered. */
final class GroupBuffer implements SymmetricBuffer {
    private final Membership group;
    private final SymmetricMemory memory;

    GroupBuffer(Membership group, SymmetricMemory memory) {
        this.group = group;
        this.memory = memory;
    }

    @Override
    public MemorySegment memory() {
        return memory.own();
    }

    @Override
    public long bytes() {
        return memory.bytes();
    }

    SymmetricMemory symmetric() {
        return memory;
    }

    @Override
    public void close() {
        group.locked(memory::close);
    }
}
