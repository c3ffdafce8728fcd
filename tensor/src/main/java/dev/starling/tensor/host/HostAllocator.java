package dev.starling.tensor.host;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Caching allocator of off-heap memory. Sizes are rounded up to one of four classes per power of two; freed blocks wait
 * in their class, most recently used first, so that what is still in the processor's caches is lent out next. Small
 * blocks are cut from slabs, which stay for the life of the process; large ones have an arena each, which {@link #trim}
 * closes.
 */
public final class HostAllocator implements Allocator {
    private static final int ALIGNMENT = 64;
    private static final long SLAB = 1 << 20;
    private static final long LARGE = SLAB / 8;
    private static final int CLASSES = 4 * 64;

    private static final HostAllocator SHARED = new HostAllocator();

    private final Object lock = new Object();
    private final Bin[] bins = new Bin[CLASSES];
    private long slabNext;
    private long slabEnd;
    private long live;
    private long peak;
    private long cached;
    private long allocations;

    private static final class HostBlock extends Block {
        private final int bin;
        private final Arena arena;

        HostBlock(long address, long capacity, int bin, Arena arena) {
            super(address, capacity);
            this.bin = bin;
            this.arena = arena;
        }
    }

    private static final class Bin {
        private HostBlock[] blocks = new HostBlock[8];
        private int count;

        void push(HostBlock block) {
            if (count == blocks.length) {
                blocks = java.util.Arrays.copyOf(blocks, count * 2);
            }
            blocks[count++] = block;
        }

        HostBlock pop() {
            if (count == 0) {
                return null;
            }
            HostBlock block = blocks[--count];
            blocks[count] = null;
            return block;
        }
    }

    /** Makes an allocator with an empty cache. */
    public HostAllocator() {
        for (int i = 0; i < CLASSES; i++) {
            bins[i] = new Bin();
        }
    }

    /** Returns the one allocator of all devices that live in host memory. */
    public static HostAllocator shared() {
        return SHARED;
    }

    /** Returns the number of the smallest class whose blocks hold {@code bytes}. */
    static int bin(long bytes) {
        if (bytes <= ALIGNMENT) {
            return 0;
        }
        int log = 63 - Long.numberOfLeadingZeros(bytes - 1);
        int quarter = (int) ((bytes - 1) >>> (log - 2)) & 3;
        return (log - 6) * 4 + quarter + 1;
    }

    /** Returns the size of the blocks of a class. */
    static long size(int bin) {
        if (bin == 0) {
            return ALIGNMENT;
        }
        int log = (bin - 1) / 4 + 6;
        long size = (1L << log) + ((bin - 1) % 4 + 1) * (1L << (log - 2));
        return (size + ALIGNMENT - 1) & -ALIGNMENT;
    }

    @Override
    public Block allocate(long bytes) {
        int bin = bin(bytes);
        synchronized (lock) {
            HostBlock block = bins[bin].pop();
            if (block == null) {
                block = fresh(bin, bytes);
            } else {
                cached -= block.capacity();
            }
            live += block.capacity();
            if (live > peak) {
                peak = live;
            }
            return block;
        }
    }

    private HostBlock fresh(int bin, long bytes) {
        long size = size(bin);
        if (size >= LARGE) {
            Arena arena = Arena.ofShared();
            long address = request(arena, size, bytes);
            return new HostBlock(address, size, bin, arena);
        }
        if (slabEnd - slabNext < size) {
            slabNext = request(Arena.global(), SLAB, bytes);
            slabEnd = slabNext + SLAB;
        }
        HostBlock block = new HostBlock(slabNext, size, bin, null);
        slabNext += size;
        return block;
    }

    private long request(Arena arena, long size, long bytes) {
        allocations++;
        try {
            return place(arena, size);
        } catch (OutOfMemoryError first) {
            trimLocked();
            try {
                return place(arena, size);
            } catch (OutOfMemoryError second) {
                throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(),
                        "asked for " + bytes + " bytes with " + live + " live and " + cached + " cached",
                        "close scopes earlier or use smaller batches");
            }
        }
    }

    private static long place(Arena arena, long size) {
        return LargePages.suit(size) ? LargePages.allocate(arena, size) : arena.allocate(size, ALIGNMENT).address();
    }

    @Override
    public void free(Block block) {
        HostBlock b = (HostBlock) block;
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
        List<Arena> idle = new ArrayList<>();
        for (Bin bin : bins) {
            ArrayDeque<HostBlock> stay = new ArrayDeque<>();
            for (HostBlock b = bin.pop(); b != null; b = bin.pop()) {
                if (b.arena == null) {
                    stay.push(b);
                } else {
                    idle.add(b.arena);
                    cached -= b.capacity();
                }
            }
            stay.forEach(bin::push);
        }
        idle.forEach(Arena::close);
    }

    @Override
    public MemoryUse use() {
        synchronized (lock) {
            return new MemoryUse(live, peak, cached, allocations);
        }
    }
}
