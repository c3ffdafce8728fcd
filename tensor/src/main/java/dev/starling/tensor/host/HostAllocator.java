package dev.starling.tensor.host;

import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.CachingAllocator;
import dev.starling.tensor.spi.MemorySource;
import dev.starling.tensor.spi.MemoryUse;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.concurrent.ConcurrentSkipListMap;

/** Caching allocator of off-heap memory; each request to the system has an arena of its own. */
public final class HostAllocator implements Allocator {
    private static final int ALIGNMENT = 64;
    /** Blocks smaller than a large page are cut from slabs of several, so that they, too, are in large pages. */
    private static final long SLAB = 8 * LargePages.BYTES;
    private static final CachingAllocator.Sizes SIZES =
            new CachingAllocator.Sizes(ALIGNMENT, 4, ALIGNMENT, SLAB, LargePages.BYTES);
    /**
     * The system grants more memory than it has and kills the process that then uses it, so this allocator refuses a
     * request by which tensors, heap and JVM would exceed its memory. Up to this sum it does not ask, since the JVM
     * takes some time to answer.
     */
    private static final long CHECKED_BYTES = 1L << 28;
    /** Roughly what the JVM uses beside its heap. */
    private static final long JVM_BYTES = 1L << 27;
    private static final HostAllocator SHARED = new HostAllocator();

    private final Arenas source = new Arenas();
    private final CachingAllocator cache = new CachingAllocator(source, SIZES);

    private static final class Arenas implements MemorySource {
        /** By the address of the memory. */
        private final NavigableMap<Long, Region> regions = new ConcurrentSkipListMap<>();
        /** Bytes of all regions; guarded by the cache's lock. */
        private long used;
        /** Arenas to close, at the next {@link #free} if a system call of another thread still uses a segment. */
        private final List<Arena> freed = new ArrayList<>();

        @Override
        public String name() {
            return "cpu";
        }

        @Override
        public long allocate(long bytes) {
            if (bytes > CHECKED_BYTES - used
                    && bytes > PhysicalMemory.BYTES - Runtime.getRuntime().totalMemory() - JVM_BYTES - used) {
                return 0;
            }
            Arena arena = Arena.ofShared();
            try {
                long address = LargePages.suits(bytes) ? LargePages.allocate(arena, bytes)
                        : arena.allocate(bytes, ALIGNMENT).address();
                regions.put(address, new Region(arena, bytes));
                used += bytes;
                return address;
            } catch (OutOfMemoryError e) {
                arena.close();
                return 0;
            }
        }

        @Override
        public void free(long address) {
            Region region = Objects.requireNonNull(regions.remove(address));
            used -= region.bytes;
            freed.add(region.arena);
            freed.removeIf(Arenas::tryClose);
        }

        @Override
        public String remedy() {
            return "give this process more memory: that of its container or service, ulimit -v, or the machine's; or "
                    + "use smaller tensors";
        }

        /** Memory of the system. */
        private record Region(Arena arena, long bytes) { }

        private static boolean tryClose(Arena arena) {
            try {
                arena.close();
                return true;
            } catch (IllegalStateException e) {
                return false;
            }
        }
    }

    /** Makes an allocator with an empty cache. */
    public HostAllocator() { }

    /** Returns the allocator that all devices in host memory share. */
    public static HostAllocator shared() {
        return SHARED;
    }

    @Override
    public Block allocate(long bytes) {
        return cache.allocate(bytes);
    }

    @Override
    public void free(Block block) {
        cache.free(block);
    }

    /** Returns a block as a segment. Access to it throws an exception once the system has the memory back. */
    public MemorySegment segment(Block block) {
        Arena arena = Objects.requireNonNull(source.regions.floorEntry(block.address())).getValue().arena;
        return MemorySegment.ofAddress(block.address()).reinterpret(block.capacity(), arena, null);
    }

    @Override
    public void freeMany(Runnable frees) {
        cache.freeMany(frees);
    }

    @Override
    public void trim() {
        cache.trim();
    }

    @Override
    public MemoryUse use() {
        return cache.use();
    }
}
