package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.CachingAllocator;
import dev.starling.tensor.spi.MemorySource;
import dev.starling.tensor.spi.MemoryUse;

/**
 * Caching allocator of a device's memory. It may hand out a block again while queued kernels still use it: all kernels
 * are on one stream, so those of the block's next owner run later. {@link SideCopies#settle(long, long)} orders copies
 * on other streams.
 */
public final class DeviceAllocator implements Allocator {
    private static final CachingAllocator.Sizes SIZES =
            new CachingAllocator.Sizes(512, 8, 256, 16L << 20, 1L << 20);

    private final Gpu gpu;
    private final Allocator memory;
    private final SideCopies copies;

    /**
     * Makes an allocator with an empty cache, which it frees when another request of the device runs out of memory.
     *
     * @param device name of the device, as observers know it
     * @param caches whether freed memory is cached
     */
    public DeviceAllocator(String device, Gpu gpu, SideCopies copies, boolean caches) {
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
        memory = caches ? new CachingAllocator(source, SIZES) : new UncachedAllocator(source);
        gpu.onShortage(memory::trim);
    }

    /** Describes the device's memory for messages about a lack of it. */
    public String shortage() {
        MemoryUse use = memory.use();
        return "with " + use.live() + " bytes in use and " + use.cached() + " cached on " + gpu.name() + ", which has "
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
