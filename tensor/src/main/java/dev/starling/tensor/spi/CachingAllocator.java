package dev.starling.tensor.spi;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.profile.Profiling;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Keeps freed blocks for reuse. Sizes are rounded up to a few classes per power of two. Each class reuses its most
 * recently freed block first, which a processor's caches may still hold. Small blocks are cut from slabs, large ones
 * are requested individually; {@link #trim} frees large blocks and slabs of which nothing is in use.
 */
public final class CachingAllocator implements Allocator {
    private final MemorySource source;
    private final Sizes sizes;
    private final Object lock = new Object();
    private final Bin[] bins;
    private final int logMin;
    private final int logParts;
    private final List<Slab> slabs = new ArrayList<>();
    /** The slab from which blocks are cut; {@link #next} to {@link #end} is what remains of it. */
    private @Nullable Slab slab;
    private long next;
    private long end;
    private long live;
    private long peak;
    private long cached;
    private long allocations;

    /**
     * The size classes.
     *
     * @param min size of the smallest block, a power of two
     * @param perPower classes for each power of two, itself a power of two; a block wastes at most one part in that
     *     many
     * @param alignment sizes are rounded up to multiples of this power of two
     * @param slab size of the requests from which small blocks are cut
     * @param large smallest size of blocks that are requested individually; less than a slab
     */
    public record Sizes(long min, int perPower, long alignment, long slab, long large) {
        /** Returns the number of the smallest class whose blocks hold {@code bytes}. */
        int bin(long bytes) {
            return CachingAllocator.bin(bytes, logMin(), logParts());
        }

        /** Returns the size of the blocks of a class. */
        long size(int bin) {
            if (bin == 0) {
                return min;
            }
            int log = (bin - 1) / perPower + logMin();
            long size = (1L << log) + ((bin - 1) % perPower + 1) * (1L << (log - logParts()));
            return (size + alignment - 1) & -alignment;
        }

        private int logMin() {
            return Long.numberOfTrailingZeros(min);
        }

        private int logParts() {
            return Integer.numberOfTrailingZeros(perPower);
        }
    }

    private static final class Slab {
        private final long address;
        /** Bytes of all blocks that were cut from the slab and, while trimming, of those that are not in use. */
        private long cut;
        private long idle;

        Slab(long address) {
            this.address = address;
        }
    }

    private static final class Piece extends Block {
        private final int bin;
        /** {@code null} for a large block. */
        private final @Nullable Slab slab;

        Piece(long address, long capacity, int bin, @Nullable Slab slab) {
            super(address, capacity);
            this.bin = bin;
            this.slab = slab;
        }
    }

    private static final class Bin {
        private Piece[] pieces = new Piece[8];
        private int count;

        void push(Piece piece) {
            if (count == pieces.length) {
                pieces = Arrays.copyOf(pieces, count * 2);
            }
            pieces[count++] = piece;
        }

        @Nullable Piece pop() {
            if (count == 0) {
                return null;
            }
            Piece piece = pieces[--count];
            pieces[count] = null;
            return piece;
        }
    }

    /** Makes an allocator with an empty cache. */
    public CachingAllocator(MemorySource source, Sizes sizes) {
        this.source = source;
        this.sizes = sizes;
        logMin = sizes.logMin();
        logParts = sizes.logParts();
        bins = new Bin[sizes.bin(Long.MAX_VALUE) + 1];
        Arrays.setAll(bins, i -> new Bin());
    }

    private static int bin(long bytes, int logMin, int logParts) {
        if (bytes <= 1L << logMin) {
            return 0;
        }
        int log = 63 - Long.numberOfLeadingZeros(bytes - 1);
        int part = (int) ((bytes - 1) >>> (log - logParts)) & ((1 << logParts) - 1);
        return (log - logMin << logParts) + part + 1;
    }

    @Override
    public Block allocate(long bytes) {
        int bin = bin(bytes, logMin, logParts);
        synchronized (lock) {
            Piece piece = bins[bin].pop();
            if (piece == null) {
                piece = fresh(bin, bytes);
            } else {
                cached -= piece.capacity();
            }
            live += piece.capacity();
            if (live > peak) {
                peak = live;
            }
            return piece;
        }
    }

    private Piece fresh(int bin, long bytes) {
        long size = sizes.size(bin);
        if (size >= sizes.large) {
            return new Piece(request(size, bytes), size, bin, null);
        }
        Slab from = slab;
        if (from == null || end - next < size) {
            next = request(sizes.slab, bytes);
            end = next + sizes.slab;
            from = new Slab(next);
            slab = from;
            slabs.add(from);
        }
        Piece piece = new Piece(next, size, bin, from);
        next += size;
        from.cut += size;
        return piece;
    }

    private long request(long size, long bytes) {
        allocations++;
        long address = source.allocate(size);
        if (address == 0) {
            trimLocked();
            address = source.allocate(size);
        }
        if (address == 0) {
            throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(),
                    "cannot allocate " + bytes + " bytes with " + live + " bytes in use and " + cached + " cached"
                    + source.shortage(), live < size / 8 ? source.remedy()
                            : "close scopes earlier or use smaller batches");
        }
        Profiling.memory(source.name(), "allocate", size, live, cached, peak);
        return address;
    }

    @Override
    public void free(Block block) {
        Piece piece = (Piece) block;
        synchronized (lock) {
            live -= piece.capacity();
            cached += piece.capacity();
            bins[piece.bin].push(piece);
        }
    }

    @Override
    public void freeMany(Runnable frees) {
        synchronized (lock) {
            frees.run();
        }
    }

    @Override
    public void trim() {
        synchronized (lock) {
            trimLocked();
        }
    }

    private void trimLocked() {
        long before = cached;
        slabs.forEach(s -> s.idle = 0);
        for (Bin bin : bins) {
            for (int i = 0; i < bin.count && bin.pieces[i].slab != null; i++) {
                bin.pieces[i].slab.idle += bin.pieces[i].capacity();
            }
        }
        for (Bin bin : bins) {
            int kept = 0;
            for (int i = 0; i < bin.count; i++) {
                Piece piece = bin.pieces[i];
                if (piece.slab != null && piece.slab.idle < piece.slab.cut) {
                    bin.pieces[kept++] = piece;
                    continue;
                }
                cached -= piece.capacity();
                if (piece.slab == null) {
                    source.free(piece.address());
                }
            }
            Arrays.fill(bin.pieces, kept, bin.count, null);
            bin.count = kept;
        }
        for (int i = slabs.size() - 1; i >= 0; i--) {
            Slab s = slabs.get(i);
            if (s.idle == s.cut) {
                slabs.remove(i);
                source.free(s.address);
                if (s == slab) {
                    slab = null;
                    next = 0;
                    end = 0;
                }
            }
        }
        if (cached < before) {
            Profiling.memory(source.name(), "trim", before - cached, live, cached, peak);
        }
    }

    @Override
    public MemoryUse use() {
        synchronized (lock) {
            return new MemoryUse(live, peak, cached, allocations);
        }
    }
}
