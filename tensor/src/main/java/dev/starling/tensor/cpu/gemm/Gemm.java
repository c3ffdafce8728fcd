package dev.starling.tensor.cpu.gemm;

import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;

/**
 * Products of f32 matrices in machine code, {@code C = A B + bias [+ C]}, panel by panel of 32 columns of B (AVX2:
 * 16), by which the rows of A pass, 12 (6) at a time. Panels are packed if B's columns are contiguous, if its rows
 * would displace each other from the cache, or if it is too large for the cache. A block of rows of A is copied if
 * these, or its columns if A is transposed, would displace each other. While tiles are computed, AVX-512's code
 * fetches what will be packed or read next. The order in which an element's sum is made depends on K alone, so that
 * neither packing nor a division of rows or columns changes its bits.
 *
 * <p>An object has the memory for one product at a time. {@link #acquire} lends an idle one to a thread.
 */
public final class Gemm implements AutoCloseable {
    /** Columns of results that are computed together; a product is best divided at multiples of it. */
    public static final int COLUMNS = TileCode.COLUMNS;
    /** Rows of results that are computed together. */
    public static final int ROWS = TileCode.ROWS;

    /**
     * Elements of the largest B, one MiB, for one row with AVX2, and with AVX-512 unless only A is transposed: beyond,
     * oneDNN is as fast or faster.
     */
    private static final long MAX_RIGHT = 1 << 18;
    /** Fewer columns leave most of a vector unused. */
    private static final long MIN_COLUMNS = 4;
    /** Columns of B up to which AVX-512's tiles multiply as fast as oneDNN where A and B are transposed. */
    private static final long MAX_COLUMNS = 256;
    /** Columns of A whose products are summed up in registers. */
    private static final int MAX_INNER = 384;
    /** Rows of A that are read again, from the second-level cache, for each panel of B. */
    private static final int BLOCK_ROWS = 16 * TileCode.ROWS;
    /** Rows of B at multiples of such a distance, in elements, share few sets of the first-level cache. */
    private static final int CROWDED_RIGHT = TileCode.BITS == 512 ? 512 : 64;
    /** The same for rows of A, and for its columns if it is transposed. */
    private static final int CROWDED_ROWS = 1024;
    private static final int CROWDED_COLUMNS = TileCode.BITS == 512 ? 1024 : 512;
    /** With AVX-512, more elements of B do not stay in the second-level cache beside those of A and C. */
    private static final long MAX_IN_PLACE = TileCode.BITS == 512 ? MAX_RIGHT / 2 : Long.MAX_VALUE;
    /**
     * Fewer remaining rows have fewer sums than the processor adds at a time; with AVX2, they and the rows of the last
     * whole tile are divided into two tiles.
     */
    private static final int FEW_ROWS = 4;
    /** Rows of A for which it pays to copy rows of B. */
    private static final int MIN_ROWS = 2 * TileCode.ROWS;
    private static final int PANEL_STEP = 4 * TileCode.COLUMNS;
    private static final int PANEL_BYTES = PANEL_STEP * MAX_INNER;
    /** Panels of B that are packed together where one block of rows reads them, and where several do. */
    private static final int FEW_PANELS = 4;
    private static final int MANY_PANELS = 16;
    /** Columns of B for which it pays to pack A. */
    private static final long MIN_COLUMNS_PACKING = 4 * TileCode.COLUMNS;
    private static final long PANELS_BYTES = MANY_PANELS * (long) PANEL_BYTES;
    private static final long LEFT_BYTES = Math.max(BLOCK_ROWS * PackCode.spread(MAX_INNER),
            MAX_INNER * PackCode.spread(BLOCK_ROWS));

    private static final IdlePool<Gemm> IDLE = new IdlePool<>();

    private static final CodeCache TILES = new CodeCache(8 * (TileCode.ROWS + 1), at -> TileCode.assemble(at >> 3,
            1 + (at >> 2 & 1), (at & 2) != 0, (at & 1) != 0));
    private static final CodeCache ROW_PACKER = new CodeCache(1, _ -> PackCode.assembleRows());
    private static final CodeCache SPREADER = new CodeCache(1, _ -> PackCode.assembleSpread());

    private final Block memory = HostAllocator.shared().allocate(PANELS_BYTES + LEFT_BYTES);
    private final long panels = memory.address();
    private final long leftBlock = panels + PANELS_BYTES;
    /** What {@link TileCode} reads. */
    private final long[] words = new long[TileCode.WORDS];
    private final MemorySegment frame = MemorySegment.ofArray(words);
    private final Transposition packer = new Transposition();

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
    private boolean packsLeft;
    private boolean packsRight;
    /** The columns of A that are multiplied at a time: the first one, and their number. */
    private long from;
    private long count;
    private long linesToFetch;

    private Gemm() { }

    /** Returns whether this process has the code. */
    public static boolean isAvailable() {
        return MachineCode.VECTOR_BITS > 0;
    }

    /**
     * Returns whether this process has the code, and it is as fast as oneDNN's for A of {@code [m, k]} and B of
     * {@code [k, n]}. Whether there is more than one row may count, but not how many, so that a product has the same
     * bits in parts.
     */
    public static boolean suits(long m, long n, long k, boolean leftTransposed, boolean rightTransposed) {
        if (!isAvailable() || n < MIN_COLUMNS) {
            return false;
        }
        boolean small = n <= MAX_RIGHT && k <= MAX_RIGHT && n * k <= MAX_RIGHT;
        return TileCode.BITS == 256 ? small || m > 1
                : leftTransposed ? !rightTransposed || small && n <= MAX_COLUMNS : small;
    }

    /** Returns whether a packed B makes products faster, and has at most twice its size. */
    public static boolean packs(long n, long rowStride, long columnStride) {
        return columnStride != 1 ? 2 * n >= COLUMNS
                : TileCode.BITS == 256 && rowStride % CROWDED_RIGHT == 0 && n % COLUMNS == 0;
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
        return (long) panels(n) * PANEL_STEP * k;
    }

    /** Returns the number of panels of B; an int, since with a long the JVM compiled the loop twice as long. */
    private static int panels(long columns) {
        return Math.toIntExact(Math.ceilDiv(columns, (long) COLUMNS));
    }

    /** Returns the number of blocks of rows of A. */
    private static int blocks(long rows) {
        return Math.toIntExact(Math.ceilDiv(rows, (long) BLOCK_ROWS));
    }

    /** Packs the whole of B, {@code [k, n]}, if {@link #packs}. */
    public void pack(long n, long k, long to) {
        if (bColumn == 1) {
            ROW_PACKER.get(0).call(b, to, 4 * bRow, k, n / COLUMNS);
            return;
        }
        for (long column = 0; column < n; column += TileCode.COLUMNS) {
            packPanel(b + 4 * column * bColumn, k, (int) Math.min(TileCode.COLUMNS, n - column), to + 4 * column * k);
        }
    }

    /** Computes a product of {@code [m, k]} and {@code [k, n]}, and adds it to C or replaces C. */
    public void multiply(long m, long n, long k, boolean add) {
        long inner = Math.ceilDiv(k, Math.ceilDiv(k, (long) MAX_INNER));
        boolean scattered = bRow % CROWDED_RIGHT == 0 || n * inner > MAX_IN_PLACE;
        packsRight = packed == 0 && (bColumn != 1 || scattered && m >= MIN_ROWS);
        long width = width(m, n);
        set(TileCode.C_STRIDE, 4 * cRow);
        for (from = 0; from < k; from += inner) {
            count = Math.min(inner, k - from);
            packsLeft = packsLeft(m, n);
            set(TileCode.INNER, count);
            set(TileCode.ADD, from > 0 || add ? 1 : 0);
            long start = 0;
            for (int parts = Math.toIntExact(Math.ceilDiv(n, width)); parts > 0; parts--, start += width) {
                long end = Math.min(n, start + width);
                if (packsRight) {
                    packRight(start, end);
                }
                long row = 0;
                for (int blocks = blocks(m); blocks > 0; blocks--, row += BLOCK_ROWS) {
                    long rows = Math.min(BLOCK_ROWS, m - row);
                    prepareLeft(row, rows, start == 0 || m > BLOCK_ROWS);
                    if (row + rows < m) {
                        fetchLeft(row + rows, Math.min(BLOCK_ROWS, m - row - rows));
                    } else {
                        fetchRight(end, Math.min(width, n - end), k);
                    }
                    multiplyBlock(row, rows, start, end, k);
                }
            }
        }
    }

    /** Returns whether blocks of A are copied, each of whose rows, or columns if A is transposed, fills a vector. */
    private boolean packsLeft(long m, long n) {
        long last = m % BLOCK_ROWS;
        boolean vectors = aColumn == 1 ? count >= PackCode.LANES : last == 0 || last >= PackCode.LANES;
        return vectors && n >= MIN_COLUMNS_PACKING
                && (aColumn == 1 ? aRow % CROWDED_ROWS : aColumn % CROWDED_COLUMNS) == 0;
    }

    /** Sets the strides of a block of A, and copies it if that is {@code due}. */
    private void prepareLeft(long row, long rows, boolean due) {
        boolean contiguous = aColumn == 1;
        long lines = contiguous ? rows : count;
        long elements = contiguous ? count : rows;
        long distance = 4 * (contiguous ? aRow : aColumn);
        long stride = packsLeft ? PackCode.spread(elements) : distance;
        set(TileCode.A_STRIDE, stride);
        set(TileCode.A_TILE, TileCode.ROWS * (contiguous ? stride : 4));
        if (packsLeft && due) {
            SPREADER.get(0).call(left(row), leftBlock, distance, lines, elements);
        }
    }

    private long left(long row) {
        return a + 4 * (row * aRow + from * aColumn);
    }

    /** Returns the columns of B that all rows of A pass before the next ones. */
    private long width(long m, long n) {
        if (packed != 0) {
            return m <= BLOCK_ROWS ? COLUMNS : n;
        }
        return !packsRight ? n : COLUMNS * (m <= BLOCK_ROWS ? FEW_PANELS : MANY_PANELS);
    }

    private long packed(long column, long k) {
        return packed + 4 * column * k + from * PANEL_STEP;
    }

    private long right(long column) {
        return b + 4 * (from * bRow + column * bColumn);
    }

    /** Packs panels of B, the last one only if it is full or its columns are contiguous. */
    private void packRight(long start, long end) {
        if (bColumn == 1) {
            long whole = (end - start) / COLUMNS;
            if (whole > 0) {
                ROW_PACKER.get(0).call(right(start), panels, 4 * bRow, count, whole);
            }
            return;
        }
        for (long column = start; column < end; column += COLUMNS) {
            packPanel(right(column), count, (int) Math.min(COLUMNS, end - column),
                    panels + 4 * (column - start) * count);
        }
    }

    private void packPanel(long source, long rows, int columns, long to) {
        packer.from(source, 4 * bColumn, 0).to(to, PANEL_STEP, 0).pack(rows, columns);
    }

    /** Multiplies a block of rows and the panels of some columns. */
    private void multiplyBlock(long row, long rows, long start, long end, long k) {
        long column = start;
        for (int left = panels(end - start); left > 0; left--, column += COLUMNS) {
            int columns = (int) Math.min(COLUMNS, end - column);
            boolean isPacked = packed != 0 || packsRight && (bColumn != 1 || columns == COLUMNS);
            set(TileCode.B, packed != 0 ? packed(column, k)
                    : isPacked ? panels + 4 * (column - start) * count : right(column));
            set(TileCode.B_STRIDE, isPacked ? PANEL_STEP : 4 * bRow);
            set(TileCode.BIAS, bias == 0 || from > 0 ? 0 : bias + 4 * column);
            mask(columns);
            tiles(packsLeft ? leftBlock : left(row), c + 4 * (row * cRow + column), rows, columns);
        }
    }

    private void fetchLeft(long row, long rows) {
        if (aColumn == 1) {
            fetch(packsLeft, left(row), rows, count, aRow);
        } else {
            fetch(packsLeft, left(row), count, rows, aColumn);
        }
    }

    private void fetchRight(long column, long columns, long k) {
        boolean needed = (packsRight || packed != 0) && columns > 0;
        if (packed != 0) {
            fetch(needed, packed(column, k), 1, COLUMNS * count, 0);
        } else if (bColumn == 1) {
            fetch(needed, right(column), count, columns, bRow);
        } else {
            fetch(needed, right(column), columns, count, bColumn);
        }
    }

    /** Lets the next tiles fetch a matrix that will be packed, if one will be, into the second-level cache. */
    private void fetch(boolean needed, long address, long rows, long columns, long stride) {
        long lines = needed ? (4 * columns + 2 * TileCode.LINE - 2) / TileCode.LINE : 1;
        linesToFetch = needed ? lines * rows : 0;
        set(TileCode.FETCH, needed ? address : panels);
        set(TileCode.FETCH_LEFT, lines);
        set(TileCode.FETCH_LINES, lines);
        set(TileCode.FETCH_GAP, needed ? 4 * stride - TileCode.LINE * lines : -TileCode.LINE);
    }

    /** Ends the fetching when so many more tiles have fetched the rest of the matrix. */
    private void fetched(long tiles) {
        if (linesToFetch > 0) {
            linesToFetch -= tiles * (count / TileCode.UNROLLED);
            if (linesToFetch <= 0) {
                fetch(false, 0, 0, 0, 0);
            }
        }
    }

    private void tiles(long left, long result, long rows, int columns) {
        long whole = rows / TileCode.ROWS;
        int last = (int) (rows - whole * TileCode.ROWS);
        int next = 0;
        if (TileCode.BITS == 256 && last > 0 && last < FEW_ROWS && whole > 0) {
            whole--;
            next = (TileCode.ROWS + last + 1) / 2;
            last = TileCode.ROWS + last - next;
        }
        long row = 0;
        if (whole > 0) {
            row = tiles(left, result, row, whole, TileCode.ROWS, columns);
        }
        if (next > 0) {
            row = tiles(left, result, row, 1, next, columns);
        }
        if (last > 0) {
            tiles(left, result, row, 1, last, columns);
        }
    }

    /** Computes a column of tiles that begins at a row, and returns the row behind it. */
    private long tiles(long left, long result, long row, long tiles, int rows, int columns) {
        set(TileCode.A, left + row * (words[TileCode.A_TILE] / TileCode.ROWS));
        set(TileCode.C, result + 4 * row * cRow);
        set(TileCode.TILES, tiles);
        int code = rows << 3 | (columns > PackCode.LANES ? 4 : 0) | (columns % PackCode.LANES != 0 ? 2 : 0)
                | (aColumn != 1 ? 1 : 0);
        TILES.get(code).call(frame, 0, 0, 0, 0);
        fetched(tiles);
        return row + tiles * rows;
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
