package dev.starling.tensor.host;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory in pages of 2 MiB, where Linux gives such on request ({@code transparent_hugepage} is {@code madvise} or
 * {@code always}): walks through large tensors then miss the address cache 512 times less often.
 */
final class LargePages {
    /** The size of a page, and the least block worth one. */
    static final long BYTES = 2L << 20;
    /** Blocks begin at different distances from a page, so that equal elements of two do not share a cache set. */
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
        static final MethodHandle MAP = handle("mmap", FunctionDescriptor.of(ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
        static final MethodHandle ADVISE = handle("madvise", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));
        static final MethodHandle UNMAP = handle("munmap", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

        private static MethodHandle handle(String name, FunctionDescriptor type) {
            Linker linker = Linker.nativeLinker();
            return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), type);
        }
    }

    /** Tells whether a block of this size is better taken from here. */
    static boolean suit(long bytes) {
        return LINUX && bytes >= BYTES;
    }

    /**
     * Returns the address of {@code bytes} zeros that live as long as {@code arena}.
     *
     * @throws OutOfMemoryError if the system has no such memory
     */
    static long allocate(Arena arena, long bytes) {
        long mapped = bytes + BYTES + COLOURS;
        try {
            long base = (long) Calls.MAP.invokeExact(0L, mapped, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0L);
            if (base == -1) {
                throw new OutOfMemoryError("no " + mapped + " bytes to be had");
            }
            MemorySegment.ofAddress(base).reinterpret(mapped, arena, s -> unmap(base, mapped));
            long start = (base + BYTES - 1) & -BYTES;
            // Where advice is refused, pages are small and all else holds.
            int refused = (int) Calls.ADVISE.invokeExact(start, mapped - (start - base), HUGEPAGE);
            return start + COUNT.getAndIncrement() * COLOUR % COLOURS;
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    private static void unmap(long base, long bytes) {
        try {
            int ignored = (int) Calls.UNMAP.invokeExact(base, bytes);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
