package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.Storage;
import dev.starling.tensor.cpu.gemm.Gemm;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.spi.Form;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A matrix product {@code C = A B + bias [+ C]}, {@code A [batch…, M, K]}, {@code B [batch…, K, N]},
 * {@code C [batch…, M, N]}, with an optional bias {@code [N]} of C's type. Operands may be transposed or have gaps
 * between their rows without being copied. Strides are in elements. A request is set up once and run any number of
 * times, also with other addresses, by one thread at a time; a run makes no object, except to pack a right operand, and
 * to find its parts where threads divide columns. {@link #acquire} lends an idle request to a thread.
 */
public final class Matmul implements RangeTask, AutoCloseable {
    private static final int KIND = 1;
    private static final int KIND_PACKED = 5;
    /** As many as a tensor of the largest rank has. */
    private static final int MAX_BATCH_DIMS = 14;
    /** Work that justifies a thread for a slice. */
    private static final double FLOPS_PER_SLICE = 1e6;
    /** Slices of rows and columns begin at multiples of this. */
    private static final long GRAIN = 16;
    /** Begins the keys of uses of a right operand. Those of forms begin with {@link #PANELS} or oneDNN's rank. */
    private static final long PACKED_RIGHT = -2;
    /** Begins the keys of forms that {@link Gemm} reads. */
    private static final long PANELS = -3;
    /** How often a right operand is used as it is; oneDNN packs parts of it at little cost, so packing must pay. */
    private static final int PLAIN_USES = 3;
    /** A smaller right operand stays in the cache, where oneDNN packs it in no time. */
    private static final long MIN_KEPT = 16 << 10;

    private static final IdlePool<Matmul> IDLE = new IdlePool<>();

    private ElementType type;
    private ElementType resultType;
    private long[] batch = {};
    private int batchDims;
    private boolean accumulate;

    private long m;
    private long n;
    private long k;
    private long a;
    private long aRow;
    private long aColumn;
    private long b;
    private long bRow;
    private long bColumn;
    private long c;
    private long cRow;
    private long bias;
    /** The memory that keeps the packed right operand, or {@code null}, and the position of the operand in it. */
    private @Nullable Storage keeper;
    private long keptOffset;
    private final long[] useLayout = new long[2];
    private final long[] useOrder = {PACKED_RIGHT, 0, 0};
    private final Form.Key use = new Form.Key(0, useLayout, useOrder);
    /** The key of the packed right operand that a part of a run used last, or {@code null}. */
    private Form.@Nullable Key lastKey;
    /** Whether the current run should use the packed operand. */
    private boolean packed;
    /** Whether the current run is in machine code of our own. */
    private boolean assembled;

    /** Number of batch dimensions that the primitive has. */
    private int innerDims;
    private Cut cut = Cut.ROWS;
    private long cutSize;
    private long cutStep;

    /** Makes a product of {@code [m, k]} and {@code [k, n]}; no size may be 0. */
    public Matmul(ElementType type, ElementType resultType, long m, long n, long k) {
        this.type = type;
        this.resultType = resultType;
        sizes(m, n, k);
    }

    /**
     * Lends an idle request, preferably the one that this thread used last, or a new one, for elements of one type.
     * {@link #sizes} comes next.
     */
    public static Matmul acquire(ElementType type) {
        Matmul idle = IDLE.take();
        Matmul request = idle == null ? new Matmul(type, type, 1, 1, 1) : idle;
        request.type = type;
        request.resultType = type;
        return request;
    }

    /** Ends the loan. */
    @Override
    public void close() {
        keeper = null;
        IDLE.give(this);
    }

    /** Makes this the request of a product of other sizes, without batch, bias and accumulation. */
    public Matmul sizes(long rows, long columns, long inner) {
        if (rows < 1 || columns < 1 || inner < 1) {
            throw new IllegalArgumentException("matmul needs sizes of at least 1, got m=" + rows + " n=" + columns
                + " k=" + inner);
        }
        m = rows;
        n = columns;
        k = inner;
        batchDims = 0;
        bias = 0;
        accumulate = false;
        keeper = null;
        return this;
    }

    /**
     * Returns whether a matrix with these strides can be an operand without a copy: one of the strides is 1 and the
     * other is not shorter than a row or column.
     */
    public static boolean accepts(long rows, long columns, long rowStride, long columnStride) {
        return rows == 1 && columns == 1
            || columns == 1 && rowStride >= 1 || rows == 1 && columnStride >= 1
            || columnStride == 1 && rowStride >= columns || rowStride == 1 && columnStride >= rows;
    }

    /** Sets the address of the left operand, and the strides of its rows and columns. */
    public Matmul left(long address, long rowStride, long columnStride) {
        MatrixStrides.require(accepts(m, k, rowStride, columnStride), "left", m, k, rowStride, columnStride);
        a = address;
        aRow = MatrixStrides.row(m, k, rowStride, columnStride);
        aColumn = MatrixStrides.column(k, columnStride);
        return this;
    }

    /** Sets the address of the right operand, and the strides of its rows and columns. */
    public Matmul right(long address, long rowStride, long columnStride) {
        MatrixStrides.require(accepts(k, n, rowStride, columnStride), "right", k, n, rowStride, columnStride);
        b = address;
        bRow = MatrixStrides.row(k, n, rowStride, columnStride);
        bColumn = MatrixStrides.column(n, columnStride);
        keeper = null;
        return this;
    }

    /** Sets the address and row stride of the result, whose columns have stride 1. */
    public Matmul result(long address, long rowStride) {
        MatrixStrides.require(rowStride >= n || m == 1, "result", m, n, rowStride, 1);
        c = address;
        cRow = m == 1 ? n : rowStride;
        return this;
    }

    /** Adds a contiguous bias {@code [n]} to each row; address 0 means none. */
    public Matmul bias(long address) {
        bias = address;
        return this;
    }

    /**
     * Packs the right operand at its fourth use and keeps it so with its storage, where it begins at element
     * {@code offset}. Call it after {@link #right}, with which it ends.
     */
    public Matmul keepRight(Storage storage, long offset) {
        keeper = k * n < MIN_KEPT ? null : storage;
        keptOffset = offset;
        lastKey = null;
        useLayout[0] = bRow;
        useLayout[1] = bColumn;
        useOrder[1] = k;
        useOrder[2] = n;
        use.at(offset);
        return this;
    }

    /** Adds the product to the result's previous content instead of replacing it. */
    public Matmul accumulate(boolean add) {
        accumulate = add;
        return this;
    }

    /**
     * Adds a batch dimension inside of those added before. A stride of 0 repeats an operand. Call it after
     * {@link #left}, {@link #right} and {@link #result}.
     */
    public Matmul batch(long count, long leftStride, long rightStride, long resultStride) {
        if (count == 1) {
            return this;
        }
        if (batchDims > 0) {
            int last = 4 * (batchDims - 1);
            if (batch[last + 1] == count * leftStride && batch[last + 2] == count * rightStride
                && batch[last + 3] == count * resultStride) {
                batchDims--;
                return batch(batch[last] * count, leftStride, rightStride, resultStride);
            }
        }
        if (batchDims == MAX_BATCH_DIMS) {
            throw new IllegalArgumentException("matmul supports at most " + MAX_BATCH_DIMS + " batch dimensions");
        }
        int at = 4 * batchDims++;
        if (at == batch.length) {
            batch = Arrays.copyOf(batch, Math.max(4, 2 * at));
        }
        batch[at] = count;
        batch[at + 1] = leftStride;
        batch[at + 2] = rightStride;
        batch[at + 3] = resultStride;
        return this;
    }

    /** Computes the product, on as many threads as the work justifies. */
    public void run() {
        foldBatchIntoRows();
        boolean assembles = type == ElementType.F32 && resultType == ElementType.F32
            && Gemm.suits(m, n, k, aColumn != 1, bColumn != 1);
        lastKey = assembles == assembled ? lastKey : null;
        assembled = assembles;
        innerDims = assembled ? 0 : fittingDims();
        long matrices = outerBatch() * innerBatch();
        boolean keeps = !assembled || Gemm.packs(n, bRow, bColumn);
        packed = keeps && keeper != null && batchDims == 0 && keeper.isReused(use, PLAIN_USES);
        double flops = 2.0 * matrices * m * n * k;
        plan(flops < 2 * FLOPS_PER_SLICE ? 1 : (long) Math.min(Parallel.threads(), flops / FLOPS_PER_SLICE));
        long parts = (cutSize + cutStep - 1) / cutStep;
        if (parts == 1) {
            run(0, 1);
        } else {
            Parallel.forRange(parts, 1, this);
        }
    }

    /** Runs slices; called by the thread pool. */
    @Override
    public void run(long from, long to) {
        if (assembled) {
            try (Gemm gemm = Gemm.acquire()) {
                for (long part = from; part < to; part++) {
                    long begin = part * cutStep;
                    run(gemm, begin, Math.min(cutSize, begin + cutStep) - begin);
                }
            }
            return;
        }
        try (Session session = Session.acquire()) {
            for (long part = from; part < to; part++) {
                long begin = part * cutStep;
                run(session, begin, Math.min(cutSize, begin + cutStep) - begin);
            }
        }
    }

    /** If the innermost batch shares its right operand, merges the batch into the rows. */
    private void foldBatchIntoRows() {
        while (batchDims > 0) {
            int last = 4 * (batchDims - 1);
            if (batch[last + 2] != 0 || batch[last + 1] != m * aRow || batch[last + 3] != m * cRow || aColumn != 1) {
                return;
            }
            m *= batch[last];
            batchDims--;
        }
    }

    /**
     * Returns the number of batch dimensions of a primitive: at most one. oneDNN 3.11 computes wrong products for some
     * strides of two dimensions, and of one where K is 1.
     */
    private int fittingDims() {
        if (batchDims == 0 || k == 1) {
            return 0;
        }
        int last = 4 * (batchDims - 1);
        long left = batch[last + 1];
        long right = batch[last + 2];
        boolean fits = (left != 0 || right != 0) && separate(batch[last], left, m, k, aRow, aColumn)
            && separate(batch[last], right, k, n, bRow, bColumn)
            && separate(batch[last], batch[last + 3], m, n, cRow, 1);
        return fits ? 1 : 0;
    }

    /**
     * Returns whether oneDNN accepts matrices at this distance, whether consecutive or interleaved: it refuses a stride
     * that is less than the inner strides times their sizes, even if no elements overlap.
     */
    private static boolean separate(long count, long stride, long rows, long columns, long row, long column) {
        long narrow = row > column ? columns : rows;
        return stride == 0 || stride >= Math.max(rows * row, columns * column)
            || stride >= narrow && Math.max(row, column) >= count * stride;
    }

    private long innerBatch() {
        return innerDims == 0 ? 1 : batch[4 * (batchDims - 1)];
    }

    /** Returns the number of runs of the primitive. */
    private long outerBatch() {
        long count = 1;
        for (int i = 0; i < batchDims - innerDims; i++) {
            count *= batch[4 * i];
        }
        return count;
    }

    private void plan(long slices) {
        long outer = outerBatch();
        long inner = innerBatch();
        if (outer >= slices && outer > 1) {
            cut = Cut.OUTER_BATCH;
            cutSize = outer;
        } else if (inner >= slices && inner > 1) {
            cut = Cut.INNER_BATCH;
            cutSize = inner;
        } else {
            cut = m > n ? Cut.ROWS : Cut.COLUMNS;
            cutSize = Math.max(m, n);
        }
        cutStep = (cutSize + slices - 1) / slices;
        if (slices > 1 && (cut == Cut.ROWS || cut == Cut.COLUMNS)) {
            long grain = !assembled ? GRAIN : cut == Cut.ROWS ? Gemm.ROWS : Gemm.COLUMNS;
            cutStep = (cutStep + grain - 1) / grain * grain;
        }
    }

    private void run(Gemm gemm, long begin, long size) {
        boolean byRows = cut == Cut.ROWS;
        boolean byColumns = cut == Cut.COLUMNS;
        long rows = byRows ? size : m;
        long columns = byColumns ? size : n;
        long bStart = byColumns ? begin * bColumn : 0;
        try (Form form = packed ? panels(gemm) : null) {
            long from = cut == Cut.OUTER_BATCH ? begin : 0;
            long to = cut == Cut.OUTER_BATCH ? begin + size : outerBatch();
            for (long matrix = from; matrix < to; matrix++) {
                gemm.left(a + 4 * ((byRows ? begin * aRow : 0) + outerOffset(matrix, 1)), aRow, aColumn)
                    .right(b + 4 * (bStart + outerOffset(matrix, 2)), bRow, bColumn)
                    .packedRight(form == null ? 0 : form.address() + (byColumns ? 4 * begin * k : 0))
                    .result(c + 4 * ((byRows ? begin * cRow : byColumns ? begin : 0) + outerOffset(matrix, 3)), cRow)
                    .bias(bias == 0 ? 0 : bias + (byColumns ? 4 * begin : 0))
                    .multiply(rows, columns, k, accumulate);
            }
        }
    }

    /** Returns the packed right operand as a whole, or {@code null} while another thread packs it. */
    private @Nullable Form panels(Gemm gemm) {
        Form.Key known = lastKey;
        Form.Key key = known != null ? known
            : new Form.Key(keptOffset, new long[] {bRow, bColumn}, new long[] {PANELS, k, n});
        lastKey = key;
        Storage memory = Objects.requireNonNull(keeper);
        Form kept = memory.keptForm(key);
        return kept != null ? kept : memory.form(key, Gemm.packedBytes(n, k), to -> {
            Reorders.count();
            gemm.right(b, bRow, bColumn).pack(n, k, to);
        });
    }

    private void run(Session session, long begin, long size) {
        long rows = cut == Cut.ROWS ? size : m;
        long columns = cut == Cut.COLUMNS ? size : n;
        long inner = cut == Cut.INNER_BATCH ? size : innerBatch();
        int last = 4 * (batchDims - 1);
        long aStart = cut == Cut.ROWS ? begin * aRow : cut == Cut.INNER_BATCH ? begin * batch[last + 1] : 0;
        long bStart = cut == Cut.COLUMNS ? begin * bColumn : cut == Cut.INNER_BATCH ? begin * batch[last + 2] : 0;
        long cStart = switch (cut) {
            case ROWS -> begin * cRow;
            case COLUMNS -> begin;
            case INNER_BATCH -> begin * batch[last + 3];
            case OUTER_BATCH -> 0;
        };
        long biasAddress = bias == 0 ? 0 : bias + (cut == Cut.COLUMNS ? begin * resultType.bytes() : 0);
        if (packed && runPacked(session, rows, columns, aStart, bStart, cStart, biasAddress)) {
            return;
        }
        Executable executable = executable(session, rows, columns, inner);
        if (bias != 0) {
            executable.bind(3, biasAddress);
        }
        long from = cut == Cut.OUTER_BATCH ? begin : 0;
        long to = cut == Cut.OUTER_BATCH ? begin + size : outerBatch();
        for (long matrix = from; matrix < to; matrix++) {
            executable.bind(0, a + (aStart + outerOffset(matrix, 1)) * type.bytes());
            executable.bind(1, b + (bStart + outerOffset(matrix, 2)) * type.bytes());
            executable.bind(2, c + (cStart + outerOffset(matrix, 3)) * resultType.bytes());
            executable.run(session);
        }
    }

    /** Runs with the packed right operand that its storage keeps; returns false if it keeps none. */
    private boolean runPacked(Session session, long rows, long columns, long aStart, long bStart, long cStart,
                              long biasAddress) {
        PackedMatmul kernel = packedMatmul(session, rows, columns);
        Form form = kernel.packs() ? form(session, kernel, bStart) : null;
        if (form == null) {
            return false;
        }
        try (form) {
            Executable product = kernel.product();
            product.bind(0, a + aStart * type.bytes());
            product.bind(1, form.address());
            product.bind(2, c + cStart * resultType.bytes());
            if (biasAddress != 0) {
                product.bind(3, biasAddress);
            }
            product.run(session);
        }
        return true;
    }

    /** Returns a part of the packed right operand, or {@code null} while another thread packs it. */
    private @Nullable Form form(Session session, PackedMatmul kernel, long bStart) {
        Form.Key known = lastKey;
        Form.Key key = known != null && known.isOf(keptOffset + bStart, kernel.packing()) ? known
            : new Form.Key(keptOffset + bStart, new long[] {bRow, bColumn}, kernel.packing());
        lastKey = key;
        Storage memory = Objects.requireNonNull(keeper);
        Form kept = memory.keptForm(key);
        return kept != null ? kept
            : memory.form(key, kernel.bytes(), to -> kernel.pack(session, b + bStart * type.bytes(), to));
    }

    /** Returns the offset of an operand in run {@code matrix}; {@code which} is its position in a batch dimension. */
    private long outerOffset(long matrix, int which) {
        long offset = 0;
        long rest = matrix;
        for (int i = 4 * (batchDims - innerDims - 1); i >= 0; i -= 4) {
            offset += rest % batch[i] * batch[i + which];
            rest /= batch[i];
        }
        return offset;
    }

    private Executable executable(Session session, long rows, long columns, long inner) {
        Compiled found = find(session, KIND, rows, columns, inner);
        return (Executable) (found != null ? found
            : session.keep(session.key().copy(), compile(rows, columns, inner, false)));
    }

    private PackedMatmul packedMatmul(Session session, long rows, long columns) {
        Compiled found = find(session, KIND_PACKED, rows, columns, 1);
        return (PackedMatmul) (found != null ? found
            : session.keep(session.key().copy(), compile(rows, columns, 1, true)));
    }

    private @Nullable Compiled find(Session session, int kind, long rows, long columns, long inner) {
        Key key = session.key().begin(kind).add(type.code).add(resultType.code).add(rows).add(columns).add(k)
            .add(aRow).add(aColumn).add(bRow).add(bColumn).add(cRow)
            .add(bias != 0).add(accumulate).add(innerDims);
        if (innerDims == 1) {
            int last = 4 * (batchDims - 1);
            key.add(inner).add(batch[last + 1]).add(batch[last + 2]).add(batch[last + 3]);
        }
        return session.find();
    }

    private Compiled compile(long rows, long columns, long inner, boolean packed) {
        long[] descs = {
            operand(type, 1, inner, rows, k, aRow, aColumn).desc(),
            operand(type, 2, inner, k, columns, bRow, bColumn).desc(),
            operand(resultType, 3, inner, rows, columns, cRow, 1).desc(),
            bias == 0 ? 0 : biasLayout(columns).desc()};
        long attributes = Dnnl.attributes(accumulate);
        long any = packed ? Dnnl.anyLayout(type, new long[] {k, columns}) : 0;
        try {
            long primitive = Dnnl.matmul(descs[0], packed ? any : descs[1], descs[3], descs[2], attributes);
            int[] ids = bias == 0 ? new int[] {Dnnl.ARG_SRC, Dnnl.ARG_WEIGHTS, Dnnl.ARG_DST}
                : new int[] {Dnnl.ARG_SRC, Dnnl.ARG_WEIGHTS, Dnnl.ARG_DST, Dnnl.ARG_BIAS};
            return packed ? new PackedMatmul(primitive, ids, descs,
                operand(type, 2, inner, k, columns, bRow, bColumn), plainKernel(descs, attributes))
                : new Executable(primitive, ids, descs);
        } finally {
            Dnnl.destroy(Dnnl.Kind.ATTRIBUTES, attributes);
            Dnnl.destroy(Dnnl.Kind.DESC, any);
            for (long desc : descs) {
                Dnnl.destroy(Dnnl.Kind.DESC, desc);
            }
        }
    }

    private static String plainKernel(long[] descs, long attributes) {
        long plain = Dnnl.matmul(descs[0], descs[1], descs[3], descs[2], attributes);
        try {
            return Dnnl.implementation(plain);
        } finally {
            Dnnl.destroy(Dnnl.Kind.PRIMITIVE_DESC, plain);
        }
    }

    /**
     * Returns the layout of an operand; {@code which} is its position in a batch dimension. Strides of single rows and
     * columns are chosen so that oneDNN cannot mistake the matrix for its transpose.
     */
    private Layout operand(ElementType elements, int which, long inner, long rows, long columns, long row,
                           long column) {
        long rowStride = rows > 1 ? row : column == 1 || columns == 1 ? columns : 1;
        long columnStride = columns > 1 ? column : row == 1 ? rows : 1;
        if (innerDims == 0) {
            return new Layout(elements, new long[] {rows, columns}, new long[] {rowStride, columnStride});
        }
        long stride = batch[4 * (batchDims - 1) + which];
        return new Layout(elements, new long[] {stride == 0 ? 1 : inner, rows, columns},
            new long[] {stride == 0 ? Math.max(rows * row, columns * column) : stride, rowStride, columnStride});
    }

    private Layout biasLayout(long columns) {
        return innerDims == 0 ? new Layout(resultType, new long[] {1, columns}, new long[] {columns, 1})
            : new Layout(resultType, new long[] {1, 1, columns}, new long[] {columns, columns, 1});
    }

    /** The dimension along which a run is divided. */
    private enum Cut { OUTER_BATCH, INNER_BATCH, ROWS, COLUMNS }
}
