package dev.starling.tensor.cpu.rows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Values of each row of a group, in several lists, between two passes over the rows. A group is so small that its
 * elements stay in the cache. Each thread has one.
 */
final class RowValues {
    /** The most rows in a group. */
    static final int ROWS = 256;
    private static final int ELEMENTS = 1 << 14;
    private static final int LISTS = 4;
    private static final ThreadLocal<RowValues> CURRENT = ThreadLocal.withInitial(RowValues::new);

    private final MemorySegment memory = Arena.ofAuto().allocate(4L * ROWS * (LISTS + 1), 64);

    private final long address = memory.address();
    /** The difference between the multiples in the last list, which begin as zeros. */
    private int step;

    private RowValues() {
    }

    /** Returns the address of this thread's list of number {@code k}. */
    static long list(int k) {
        return CURRENT.get().address + 4L * ROWS * k;
    }

    /** Returns the address of this thread's list of 0, {@code step}, {@code 2 step}, …, i32. */
    static long multiples(int step) {
        RowValues values = CURRENT.get();
        long list = values.address + 4L * ROWS * LISTS;
        if (values.step != step) {
            for (int i = 0; i < ROWS; i++) {
                RowElements.setInteger(list, i, i * step);
            }
            values.step = step;
        }
        return list;
    }

    /** Returns the number of rows in a group, when {@code rows} are left. */
    static int group(int rows, int columns) {
        return Math.min(rows, Math.clamp(ELEMENTS / columns, 1, ROWS));
    }
}
