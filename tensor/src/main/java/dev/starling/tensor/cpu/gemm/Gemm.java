package dev.starling.tensor.cpu.gemm;

import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;

/**
 * Products of f32 matrices in machine code, {@code C = A B + bias [+ C]}, where B fits into the second-level cache; its
 * panels of 32 columns (AVX2: 16) are read where they lie while the rows of A pass by, 12 (6) at a time. Only a B whose
 * columns are contiguous, or whose rows would displace each other from the cache, is packed. The order in which an
 * element's sum is made depends on K alone, so that neither packing nor a division of rows or columns changes its bits.
 *
 * <p>An object has the memory for one product at a time. {@link #acquire} lends an idle one to a thread.
 */
public final class Gemm implements AutoCloseable {
    /** Columns of results that are computed together; a product is best divided at multiples of it. */
    public static final int COLUMNS = TileCode.COLUMNS;
    /** Rows of results that are computed together. */
    public static final int ROWS = TileCode.ROWS;

    /** Elements of the largest B: one MiB. Beyond, oneDNN, which packs both operands, is as fast or faster. */
    private static final long MAX_RIGHT = 1 << 18;
    /** Fewer columns leave most of a vector unused. */
    private static final long MIN_COLUMNS = 4;
    /** Columns of B up to which a transposed A is read as it lies. */
    private static final long MAX_COLUMNS = 256;
    /** Columns of A whose products are summed up in registers. */
    private static final int MAX_INNER = 384;
    /** Rows of A that are read again, from the second-level cache, for each panel of B. */
    private static final int BLOCK_ROWS = 16 * TileCode.ROWS;
    /** Rows of B at such distances in elements share few sets of the first-level cache. */
    private static final int CROWDED_STRIDE = 512;
    /** Rows of A for which it pays to copy such a panel. */
    private static final int MIN_ROWS = 2 * TileCode.ROWS;
    private static final int PANEL_STEP = 4 * TileCode.COLUMNS;
    private static final int BYTES = PANEL_STEP * MAX_INNER + PackCode.EXCESS;

    private static final IdlePool<Gemm> IDLE = new IdlePool<>();

    private static final CodeCache TILES = new CodeCache(8 * (TileCode.ROWS + 1), at -> TileCode.assemble(at >> 3,
            1 + (at >> 2 & 1), (at & 2) != 0, (at & 1) != 0));
    private static final CodeCache ROW_PACKER = new CodeCache(1, _ -> PackCode.assembleRows());
    private static final CodeCache PACKERS = new CodeCache(PackCode.LANES + 1, PackCode::assemble);

    private final Block memory = HostAllocator.shared().allocate(BYTES);
    private final long panel = memory.address();
    /** What {@link TileCode} reads. */
    private final long[] words = new long[TileCode.WORDS];
    private final MemorySegment frame = MemorySegment.ofArray(words);

    private long a;
    private long aRow;
    private long aColumn;
    private long b;
    private long bRow;
    private long bColumn;
    private long packed;
    private long c;
    private long cRow;
    private long bias;

    private Gemm() { }

    /**
     * Returns whether this process has the code, and it is as fast as oneDNN's for B of {@code [k, n]}. Rows do not
     * count, so that a product has the same bits in parts.
     */
    public static boolean suits(long n, long k, boolean leftTransposed) {
        return MachineCode.VECTOR_BITS > 0 && n >= MIN_COLUMNS && n <= MAX_RIGHT && k <= MAX_RIGHT
                && n * k <= MAX_RIGHT && (!leftTransposed || n <= MAX_COLUMNS);
    }

    /** Returns whether a packed B makes products faster, and has at most twice its size. */
    public static boolean packs(long n, long columnStride) {
        return columnStride != 1 && 2 * n >= COLUMNS;
    }

    /** Lends an idle object, preferably the one that this thread used last, or a new one. */
    public static Gemm acquire() {
        Gemm idle = IDLE.take();
        return (idle == null ? new Gemm() : idle).bias(0);
    }

    /** Ends the loan. */
    @Override
    public void close() {
        if (!IDLE.give(this)) {
            HostAllocator.shared().free(memory);
        }
    }

    /** Sets the address of A and the strides of its rows and columns in elements, of which one is 1. */
    public Gemm left(long address, long rowStride, long columnStride) {
        a = address;
        aRow = rowStride;
        aColumn = columnStride;
        return this;
    }

    /** Sets the address of B and the strides of its rows and columns in elements, of which one is 1. */
    public Gemm right(long address, long rowStride, long columnStride) {
        b = address;
        bRow = rowStride;
        bColumn = columnStride;
        packed = 0;
        return this;
    }

    /**
     * Sets the address at which {@link #pack} has written B, or 0. The columns from {@code j} on, a multiple of
     * {@link #COLUMNS}, begin {@code 4 j k} bytes behind it.
     */
    public Gemm packedRight(long address) {
        packed = address;
        return this;
    }

    /** Sets the address of C and the stride of its rows in elements. */
    public Gemm result(long address, long rowStride) {
        c = address;
        cRow = rowStride;
        return this;
    }

    /** Sets the address of a value for each column, or 0. */
    public Gemm bias(long address) {
        bias = address;
        return this;
    }

    /** Returns the bytes of a packed B. */
    public static long packedBytes(long n, long k) {
        return Math.ceilDiv(n, (long) TileCode.COLUMNS) * PANEL_STEP * k + PackCode.EXCESS;
    }

    /** Packs the whole of B, {@code [k, n]}, whose columns are contiguous. */
    public void pack(long n, long k, long to) {
        for (long column = 0; column < n; column += TileCode.COLUMNS) {
            packPanel(b + 4 * column * bColumn, k, (int) Math.min(TileCode.COLUMNS, n - column), to + 4 * column * k);
        }
    }

    /** Computes a product of {@code [m, k]} and {@code [k, n]}, and adds it to C or replaces C. */
    public void multiply(long m, long n, long k, boolean add) {
        long inner = Math.ceilDiv(k, Math.ceilDiv(k, (long) MAX_INNER));
        set(TileCode.A_STRIDE, 4 * (aColumn == 1 ? aRow : aColumn));
        set(TileCode.A_TILE, 4 * TileCode.ROWS * aRow);
        set(TileCode.C_STRIDE, 4 * cRow);
        for (long from = 0; from < k; from += inner) {
            long count = Math.min(inner, k - from);
            set(TileCode.INNER, count);
            set(TileCode.ADD, from > 0 || add ? 1 : 0);
            for (long row = 0; row < m; row += BLOCK_ROWS) {
                long rows = Math.min(BLOCK_ROWS, m - row);
                for (long column = 0; column < n; column += TileCode.COLUMNS) {
                    int columns = (int) Math.min(TileCode.COLUMNS, n - column);
                    panel(rows, k, from, column, count, columns);
                    set(TileCode.BIAS, bias == 0 || from > 0 ? 0 : bias + 4 * column);
                    mask(columns);
                    tiles(a + 4 * (row * aRow + from * aColumn), c + 4 * (row * cRow + column), rows, columns);
                }
            }
        }
    }

    /** Sets the panel of B that the next tiles read, and packs it if need be. */
    private void panel(long rows, long k, long from, long column, long count, int columns) {
        long address = b + 4 * (from * bRow + column * bColumn);
        long step = PANEL_STEP;
        if (packed != 0) {
            address = packed + 4 * column * k + from * PANEL_STEP;
        } else if (bColumn != 1) {
            packPanel(address, count, columns, panel);
            address = panel;
        } else if (bRow % CROWDED_STRIDE == 0 && rows >= MIN_ROWS && columns == COLUMNS) {
            ROW_PACKER.get(0).call(address, panel, 4 * bRow, count, 0);
            address = panel;
        } else {
            step = 4 * bRow;
        }
        set(TileCode.B, address);
        set(TileCode.B_STRIDE, step);
    }

    private void tiles(long left, long result, long rows, int columns) {
        long whole = rows / TileCode.ROWS;
        int rest = (int) (rows - whole * TileCode.ROWS);
        if (whole > 0) {
            tiles(left, result, whole, TileCode.ROWS, columns);
        }
        if (rest > 0) {
            long done = rows - rest;
            tiles(left + 4 * done * aRow, result + 4 * done * cRow, 1, rest, columns);
        }
    }

    private void tiles(long left, long result, long count, int rows, int columns) {
        set(TileCode.A, left);
        set(TileCode.C, result);
        set(TileCode.TILES, count);
        int code = rows << 3 | (columns > PackCode.LANES ? 4 : 0) | (columns % PackCode.LANES != 0 ? 2 : 0)
                | (aColumn != 1 ? 1 : 0);
        TILES.get(code).call(frame, 0, 0, 0, 0);
    }

    private void packPanel(long from, long count, int columns, long to) {
        for (int column = 0; column < columns; column += PackCode.LANES) {
            PACKERS.get(Math.min(PackCode.LANES, columns - column))
                    .call(from + 4 * column * bColumn, to + 4 * column, 4 * bColumn, count, 0);
        }
    }

    /** Sets the masks of the columns that exist. */
    private void mask(int columns) {
        set(TileCode.MASKS, (1L << columns) - 1);
        int last = columns % PackCode.LANES;
        for (int lane = 0; TileCode.BITS != 512 && lane < PackCode.LANES; lane += 2) {
            set(TileCode.LANE_MASK + lane / 2, (lane < last ? 0xFFFF_FFFFL : 0) | (lane + 1 < last ? -1L << 32 : 0));
        }
    }

    private void set(int word, long value) {
        words[word] = value;
    }
}
