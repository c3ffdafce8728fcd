package dev.starling.cuda.kernels;

import dev.starling.tensor.Tensor;

/**
 * The tensors that one launch updates: the host's side of the struct {@code Table} in {@code update.cu}. It is an
 * argument of the kernel; as many tensors fit as an argument block has room for. One per thread, used again.
 */
final class UpdateTable {
    /** Of four operands; 4096 bytes hold these, the guard, and a rule. */
    static final int MOST = 96;

    private static final int FEW = 16;
    private static final int MAX_OPERANDS = 4;
    private static final ThreadLocal<UpdateTable> MINE = ThreadLocal.withInitial(UpdateTable::new);

    private final long[][] at = new long[MAX_OPERANDS][MOST];
    private final int[] count = new int[MOST];
    private final int[] first = new int[MOST];
    private int operands;
    private int elementBytes;
    private int chunk;
    private int entries;
    private int blocks;

    private UpdateTable() { }

    /** Returns an empty table for tensors of elements of so many bytes, of which a block works on {@code chunk}. */
    static UpdateTable of(int operands, int elementBytes, int chunk) {
        UpdateTable table = MINE.get();
        table.operands = operands;
        table.elementBytes = elementBytes;
        table.chunk = chunk;
        table.clear();
        return table;
    }

    int operands() {
        return operands;
    }

    /** Returns how many blocks work on what is there. */
    int blocks() {
        return blocks;
    }

    /** Returns how many entries the kernel's table has: no more than need be, for all of it goes with the launch. */
    int capacity() {
        return entries == 1 ? 1 : entries <= FEW ? FEW : MOST;
    }

    /** Tells whether a launch is due; blocks are counted with 31 bits, too. */
    boolean isFull() {
        return entries == MOST || blocks > Integer.MAX_VALUE - Math.ceilDiv((int) Layout.MAX_COUNT, chunk);
    }

    /** Adds {@code n} elements, 1 or more, of tensors that are alike, from number {@code from} in memory on. */
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
