package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.CachingAllocator;
import dev.starling.tensor.spi.MemorySource;
import dev.starling.tensor.spi.MemoryUse;

/**
 * Caching allocator of a device's memory. A block may be lent out again while kernels that use it are still queued:
 * they are all on one stream, so that its next user's kernels run after them. Copies beside them are waited for by
 * {@link SideCopies#settle(long, long)}. The property {@code starling.cuda.cache=false} does without the cache.
 */
public final class DeviceAllocator implements Allocator {
    private static final CachingAllocator.Sizes SIZES =
            new CachingAllocator.Sizes(512, 8, 256, 16L << 20, 1L << 20);

    private final Gpu gpu;
    private final Allocator memory;
    private final SideCopies copies;

    /**
     * Makes an allocator with an empty cache, which gives way to other requests of the device when memory runs out.
     *
     * @param device whose memory it is, as observers know it
     */
    public DeviceAllocator(String device, Gpu gpu, SideCopies copies) {
        this.gpu = gpu;
        this.copies = copies;
        MemorySource source = new MemorySource() {
            @Override
            public String name() {
                return device;
            }

            @Override
            public long allocate(long bytes) {
                return gpu.allocate(bytes);
            }

            @Override
            public void free(long address) {
                gpu.free(address);
            }

            @Override
            public String shortage() {
                return " on " + gpu.name() + ", which has " + gpu.freeBytes() + " bytes free";
            }
        };
        memory = Boolean.parseBoolean(System.getProperty("starling.cuda.cache", "true"))
                ? new CachingAllocator(source, SIZES) : new UncachedAllocator(source);
        gpu.onShortage(memory::trim);
    }

    /** Tells where the memory is, for whoever found none left. */
    public String shortage() {
        MemoryUse use = memory.use();
        return "with " + use.live() + " bytes live and " + use.cached() + " cached on " + gpu.name() + ", which has "
                + gpu.freeBytes() + " bytes free";
    }

    @Override
    public Block allocate(long bytes) {
        return memory.allocate(bytes);
    }

    @Override
    public void free(Block block) {
        copies.settle(block.address(), block.capacity());
        memory.free(block);
    }

    @Override
    public void trim() {
        memory.trim();
    }

    @Override
    public MemoryUse use() {
        return memory.use();
    }
}
