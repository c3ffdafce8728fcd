package dev.starling.cuda.kernels;

import dev.starling.tensor.Tensor;

/**
 * The tensors that one launch updates: the host's side of the struct {@code Table} in {@code update.cu}. The table is
 * an argument of the kernel, so the size of arguments limits it. Each thread reuses one instance.
 */
final class UpdateTable {
    /** The most entries, of up to four operands each. */
    static final int MAX_ENTRIES = 96;

    private static final int FEW = 16;
    private static final int MAX_OPERANDS = 5;
    /** Bytes of all entries; they fit with the guard and a rule into 4096. */
    private static final int MAX_BYTES = 3840;
    private static final ThreadLocal<UpdateTable> MINE = ThreadLocal.withInitial(UpdateTable::new);

    private final long[][] at = new long[MAX_OPERANDS][MAX_ENTRIES];
    private final int[] count = new int[MAX_ENTRIES];
    private final int[] first = new int[MAX_ENTRIES];
    private int operands;
    private int maxEntries;
    private int elementBytes;
    private int chunk;
    private int entries;
    private int blocks;

    private UpdateTable() { }

    /** Returns an empty table for tensors with elements of the given size, of which a block processes {@code chunk}. */
    static UpdateTable of(int operands, int elementBytes, int chunk) {
        UpdateTable table = MINE.get();
        table.operands = operands;
        table.maxEntries = Math.min(MAX_ENTRIES, MAX_BYTES / (operands * Long.BYTES + 2 * Integer.BYTES));
        table.elementBytes = elementBytes;
        table.chunk = chunk;
        table.clear();
        return table;
    }

    int operands() {
        return operands;
    }

    /** Returns the number of blocks for the table's entries. */
    int blocks() {
        return blocks;
    }

    /** Returns the size of the kernel's table: small if possible, since the whole table is copied at each launch. */
    int capacity() {
        return entries == 1 ? 1 : entries <= FEW ? FEW : maxEntries;
    }

    /** Returns whether the table has to be launched before more is added: entries and blocks are limited. */
    boolean isFull() {
        return entries == maxEntries || blocks > Integer.MAX_VALUE - Math.ceilDiv((int) Layout.MAX_COUNT, chunk);
    }

    /** Adds {@code n} elements, at least 1, of equally shaped tensors, starting at element {@code from}. */
    void add(Tensor[] tensors, long from, int n) {
        for (int k = 0; k < operands; k++) {
            at[k][entries] = tensors[k].address() + from * elementBytes;
        }
        count[entries] = n;
        first[entries++] = blocks;
        blocks += Math.ceilDiv(n, chunk);
    }

    /** Appends the struct. */
    void appendTo(Launch launch) {
        int capacity = capacity();
        launch.align(8);
        for (int k = 0; k < operands; k++) {
            launch.i64s(at[k], entries, capacity);
        }
        launch.i32s(count, entries, capacity);
        launch.i32s(first, entries, capacity);
        launch.i32(entries).align(8);
    }

    void clear() {
        entries = 0;
        blocks = 0;
    }
}
