package dev.starling.tensor.host;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory in pages of 2 MiB, if Linux grants them on request ({@code transparent_hugepage} is {@code madvise} or
 * {@code always}): accesses to large tensors then miss the TLB 512 times less often.
 */
final class LargePages {
    /** The size of a page, and of the smallest block for which pages are requested. */
    static final long BYTES = 2L << 20;
    /**
     * Blocks begin at different offsets within a page, so that equal elements of two blocks do not share a cache set.
     */
    private static final long COLOUR = 192;
    private static final long COLOURS = 4096;
    private static final int READ_WRITE = 3;
    private static final int PRIVATE_ANONYMOUS = 0x22;
    private static final int HUGEPAGE = 14;
    private static final boolean LINUX = System.getProperty("os.name").equals("Linux");
    private static final AtomicLong COUNT = new AtomicLong();

    private LargePages() {
    }

    private static final class Calls {
        static final MemorySegment MAP = NativeCall.systemFunction("mmap");
        static final MemorySegment ADVISE = NativeCall.systemFunction("madvise");
        static final MemorySegment UNMAP = NativeCall.systemFunction("munmap");
    }

    /** Returns whether a block of this size should come from large pages. */
    static boolean suits(long bytes) {
        return LINUX && bytes >= BYTES;
    }

    /**
     * Returns the address of {@code bytes} zeros that are freed with {@code arena}.
     *
     * @throws OutOfMemoryError if the system has not enough memory
     */
    static long allocate(Arena arena, long bytes) {
        long mapped = bytes + BYTES + COLOURS;
        long base = NativeCall.call(Calls.MAP, 0, mapped, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
        if (base == -1) {
            throw new OutOfMemoryError("cannot map " + mapped + " bytes");
        }
        MemorySegment.ofAddress(base).reinterpret(mapped, arena, s -> NativeCall.call(Calls.UNMAP, base, mapped));
        long start = (base + BYTES - 1) & -BYTES;
        // If the advice is refused, pages are small and the memory is usable all the same.
        NativeCall.call(Calls.ADVISE, start, mapped - (start - base), HUGEPAGE);
        return start + COUNT.getAndIncrement() * COLOUR % COLOURS;
    }
}
