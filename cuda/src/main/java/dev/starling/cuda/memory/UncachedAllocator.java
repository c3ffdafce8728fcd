package dev.starling.cuda.memory;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.profile.Profiling;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemorySource;
import dev.starling.tensor.spi.MemoryUse;
import java.util.List;

/**
 * Requests every block separately, at its exact size, and frees it immediately. A memory checker then sees accesses
 * beyond a block's end or after it was freed. Slow, since freeing device memory waits for all queued work.
 */
final class UncachedAllocator implements Allocator {
    private final MemorySource source;
    private long live;
    private long peak;
    private long allocations;

    UncachedAllocator(MemorySource source) {
        this.source = source;
    }

    @Override
    public synchronized Block allocate(long bytes) {
        long size = Math.max(1, bytes);
        long address = source.allocate(size);
        if (address == 0) {
            throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(),
                    "cannot allocate " + bytes + " bytes with " + live + " bytes in use and 0 cached"
                            + source.shortage(),
                    "close scopes earlier or use smaller batches");
        }
        allocations++;
        live += size;
        peak = Math.max(peak, live);
        Profiling.memory(source.name(), "allocate", size, live, 0, peak);
        return new Block(address, size);
    }

    @Override
    public synchronized void free(Block block) {
        source.free(block.address());
        live -= block.capacity();
    }

    @Override
    public void trim() { }

    @Override
    public synchronized MemoryUse use() {
        return new MemoryUse(live, peak, 0, allocations);
    }
}
