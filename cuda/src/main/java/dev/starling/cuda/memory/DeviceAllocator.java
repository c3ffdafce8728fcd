package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Caching allocator of a device's memory. Sizes are rounded up to one of eight classes per power of two; freed blocks
 * wait in their class, most recently used first. Small blocks are cut from slabs, which stay; large ones are asked for
 * one by one, and {@link #trim} gives them back.
 *
 * <p>A block may be lent out again while kernels that use it are still queued: all of a device's work is on one stream,
 * so that its next user's kernels run after them.
 */
public final class DeviceAllocator implements Allocator {
    private static final int LOG_LEAST = 9;
    private static final long LEAST = 1L << LOG_LEAST;
    private static final long SLAB = 16L << 20;
    private static final long LARGE = 1L << 20;
    private static final int PER_POWER = 8;

    private final Gpu gpu;
    private final Object lock = new Object();
    private final Bin[] bins = new Bin[PER_POWER * (64 - LOG_LEAST)];
    private long slabNext;
    private long slabEnd;
    private long live;
    private long peak;
    private long cached;
    private long allocations;

    private static final class DeviceBlock extends Block {
        private final int bin;

        DeviceBlock(long address, long capacity, int bin) {
            super(address, capacity);
            this.bin = bin;
        }
    }

    private static final class Bin {
        private DeviceBlock[] blocks = new DeviceBlock[8];
        private int count;

        void push(DeviceBlock block) {
            if (count == blocks.length) {
                blocks = Arrays.copyOf(blocks, count * 2);
            }
            blocks[count++] = block;
        }

        DeviceBlock pop() {
            if (count == 0) {
                return null;
            }
            DeviceBlock block = blocks[--count];
            blocks[count] = null;
            return block;
        }
    }

    /** Makes an allocator of a device's memory with an empty cache. */
    public DeviceAllocator(Gpu gpu) {
        this.gpu = gpu;
        Arrays.setAll(bins, i -> new Bin());
    }

    /** Returns the number of the smallest class whose blocks hold {@code bytes}. */
    static int bin(long bytes) {
        if (bytes <= LEAST) {
            return 0;
        }
        int log = 63 - Long.numberOfLeadingZeros(bytes - 1);
        int eighth = (int) ((bytes - 1) >>> (log - 3)) & (PER_POWER - 1);
        return (log - LOG_LEAST) * PER_POWER + eighth + 1;
    }

    /** Returns the size of the blocks of a class, a multiple of 256 bytes from the fourth power on. */
    static long size(int bin) {
        if (bin == 0) {
            return LEAST;
        }
        int log = (bin - 1) / PER_POWER + LOG_LEAST;
        long size = (1L << log) + ((bin - 1) % PER_POWER + 1) * (1L << (log - 3));
        return (size + 255) & -256;
    }

    @Override
    public Block allocate(long bytes) {
        int bin = bin(bytes);
        synchronized (lock) {
            DeviceBlock block = bins[bin].pop();
            if (block == null) {
                block = fresh(bin, bytes);
            } else {
                cached -= block.capacity();
            }
            live += block.capacity();
            peak = Math.max(peak, live);
            return block;
        }
    }

    private DeviceBlock fresh(int bin, long bytes) {
        long size = size(bin);
        if (size >= LARGE) {
            return new DeviceBlock(request(size, bytes), size, bin);
        }
        if (slabEnd - slabNext < size) {
            slabNext = request(SLAB, bytes);
            slabEnd = slabNext + SLAB;
        }
        DeviceBlock block = new DeviceBlock(slabNext, size, bin);
        slabNext += size;
        return block;
    }

    private long request(long size, long bytes) {
        allocations++;
        long address = gpu.allocate(size);
        if (address == 0) {
            trimLocked();
            address = gpu.allocate(size);
        }
        if (address == 0) {
            throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(),
                    "asked for " + bytes + " bytes on " + gpu.name() + " with " + live + " live, " + cached
                    + " cached and " + gpu.freeBytes() + " free", "close scopes earlier or use smaller batches");
        }
        return address;
    }

    @Override
    public void free(Block block) {
        DeviceBlock b = (DeviceBlock) block;
        synchronized (lock) {
            live -= b.capacity();
            cached += b.capacity();
            bins[b.bin].push(b);
        }
    }

    @Override
    public void trim() {
        synchronized (lock) {
            trimLocked();
        }
    }

    private void trimLocked() {
        List<DeviceBlock> idle = new ArrayList<>();
        for (int i = bin(LARGE); i < bins.length; i++) {
            for (DeviceBlock b = bins[i].pop(); b != null; b = bins[i].pop()) {
                idle.add(b);
                cached -= b.capacity();
            }
        }
        idle.forEach(b -> gpu.free(b.address()));
    }

    @Override
    public MemoryUse use() {
        synchronized (lock) {
            return new MemoryUse(live, peak, cached, allocations);
        }
    }
}
