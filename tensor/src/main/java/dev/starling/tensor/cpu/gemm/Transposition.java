package dev.starling.tensor.cpu.gemm;

import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.IdlePool;
import java.lang.foreign.MemorySegment;

/**
 * Copies matrices of 4-byte elements whose columns are contiguous to matrices whose rows are, in machine code. An
 * object serves one thread at a time. {@link #acquire} lends an idle one. Strides are in bytes. Source and target must
 * not overlap. This process has the code where {@link Gemm#isAvailable}.
 */
public final class Transposition implements AutoCloseable {
    private static final IdlePool<Transposition> IDLE = new IdlePool<>();
    private static final CodeCache EXACT = new CodeCache(PackCode.LANES + 1,
            columns -> PackCode.assemble(columns, true));
    private static final CodeCache FULL = new CodeCache(PackCode.LANES + 1,
            columns -> PackCode.assemble(columns, false));

    /** Rows that machine code copies at a time, if there are several matrices. */
    private static final int PIECE = 1 << 12;

    /** What {@link PackCode} reads, and where it goes on. */
    private final long[] words = new long[PackCode.WORDS];
    private final MemorySegment frame = MemorySegment.ofArray(words);
    private long source;
    private long target;

    Transposition() { }

    /** Lends an idle object, preferably the one that this thread used last, or a new one. */
    public static Transposition acquire() {
        Transposition idle = IDLE.take();
        return idle == null ? new Transposition() : idle;
    }

    /** Ends the loan. */
    @Override
    public void close() {
        IDLE.give(this);
    }

    /** Sets the address of the first source, and the strides of its columns and from matrix to matrix. */
    public Transposition from(long address, long columnStride, long matrixStride) {
        source = address;
        words[PackCode.COLUMN_STRIDE] = columnStride;
        words[PackCode.FROM_STEP] = matrixStride;
        return this;
    }

    /** Sets the address of the first target, and the strides of its rows and from matrix to matrix. */
    public Transposition to(long address, long rowStride, long matrixStride) {
        target = address;
        words[PackCode.ROW_STRIDE] = rowStride;
        words[PackCode.TO_STEP] = matrixStride;
        return this;
    }

    /** Copies at least one matrix of {@code [rows, columns]}. */
    public void copy(long matrices, long rows, long columns) {
        run(EXACT, matrices, rows, columns);
    }

    /** Copies a matrix, behind whose rows in the target any elements may be written, up to a whole vector. */
    void pack(long rows, long columns) {
        run(FULL, 1, rows, columns);
    }

    private void run(CodeCache codes, long matrices, long rows, long columns) {
        words[PackCode.ROWS] = rows;
        for (long column = 0; column < columns; column += PackCode.LANES) {
            words[PackCode.FROM] = source + column * words[PackCode.COLUMN_STRIDE];
            words[PackCode.TO] = target + 4 * column;
            MachineCode code = codes.get((int) Math.min(PackCode.LANES, columns - column));
            for (long left = matrices, count; left > 0; left -= count) {
                count = Math.min(left, Math.max(1, PIECE / rows));
                words[PackCode.MATRICES] = count;
                code.call(frame, 0, 0, 0, 0);
            }
        }
    }
}
