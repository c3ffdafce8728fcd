package dev.starling.tensor.cpu.x86;

import dev.starling.tensor.host.NativeCall;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Executable memory: one bounded region for the life of the process. A page is first written and then made executable;
 * it is never both, and never written again. Linux only.
 */
final class CodeMemory {
    private static final long BYTES = 64L << 20;
    /** What is kept for required code. */
    private static final long KEPT = 2L << 20;
    private static final int PAGE = 4096;
    /** Code begins at different offsets within its page, so that loops do not share cache sets. */
    private static final int COLOUR = 320;
    private static final int NONE = 0;
    private static final int READ_WRITE = 3;
    private static final int READ_EXECUTE = 5;
    /** {@code MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE}. */
    private static final int RESERVED = 0x4022;

    private static final MemorySegment PROTECT = NativeCall.systemFunction("mprotect");

    private static long base;
    private static long used;
    private static int count;

    private CodeMemory() { }

    /**
     * Returns the address of executable code, or 0 if the region is full or the system allows no such memory.
     *
     * @param required whether the code may use the memory that is kept
     */
    static synchronized long publish(byte[] code, boolean required) {
        if (base == 0) {
            base = NativeCall.call(NativeCall.systemFunction("mmap"), 0, BYTES, NONE, RESERVED, -1, 0);
        }
        int spare = -code.length & PAGE - 1;
        int offset = (count * COLOUR & PAGE - 1) <= spare ? count * COLOUR & PAGE - 1 : 0;
        offset &= -64;
        long bytes = offset + code.length + PAGE - 1L & -PAGE;
        if (base == -1 || used + bytes > (required ? BYTES : BYTES - KEPT)) {
            return 0;
        }
        long page = base + used;
        if (!protect(page, bytes, READ_WRITE)) {
            return 0;
        }
        MemorySegment.copy(code, 0, MemorySegment.ofAddress(page).reinterpret(bytes), ValueLayout.JAVA_BYTE, offset,
                code.length);
        if (!protect(page, bytes, READ_EXECUTE)) {
            return 0;
        }
        used += bytes;
        count++;
        return page + offset;
    }

    private static boolean protect(long page, long bytes, int protection) {
        return (int) NativeCall.call(PROTECT, page, bytes, protection) == 0;
    }
}
