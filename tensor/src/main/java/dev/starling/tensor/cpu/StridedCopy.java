package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.gemm.Gemm;
import dev.starling.tensor.cpu.gemm.Transposition;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Copies elements of any type between layouts. Dimensions are merged and ordered by the target's strides. If source and
 * target differ in their innermost dimension, tiles pass through a buffer that stays in the first-level cache: it is
 * filled with runs of adjacent source elements, and read across them into runs of adjacent target elements. So every
 * cache line is fetched once and used completely, also if rows are a power of two apart and share places of a cache.
 * Machine code, which exists for elements of 4 bytes, exchanges rows and columns in registers instead.
 * An object of this class copies any number of times, for one thread at a time, and makes no objects.
 */
final class StridedCopy implements RangeTask {
    /** Target elements that a tile writes in one run. */
    private static final int ROWS = 64;
    /** Source bytes that a tile reads in one run. */
    private static final int RUN_BYTES = 256;
    /** Distance of rows in the buffer: an odd number of cache lines. */
    private static final int PITCH = RUN_BYTES + 64;
    private static final long GRAIN = 1 << 15;

    private static final int[] NONE = {};

    private final int bytes;
    private final long[] size;
    private final long[] from;
    private final long[] to;
    private int rank;
    private final boolean empty;
    /** The dimensions whose elements follow one another in the source, if tiles pass through a buffer. */
    private final int[] run;
    /** The dimensions but {@link #run} and the innermost one. */
    private final int[] outer;
    /** The number of elements in a run, of those that a tile takes, and of tiles. */
    private final long columns;
    private final int step;
    private final long tiles;
    private long source;
    private long target;

    /**
     * Prepares copies of tensors of a shape and element size.
     *
     * @param fromStrides of the source, in elements
     * @param toStrides of the target, in elements
     */
    StridedCopy(int bytes, Shape shape, long[] fromStrides, long[] toStrides) {
        this.bytes = bytes;
        empty = shape.count() == 0;
        size = new long[shape.rank() + 1];
        from = new long[size.length];
        to = new long[size.length];
        for (int i = shape.rank() - 1; i >= 0; i--) {
            if (shape.dim(i) != 1) {
                insert(shape.dim(i), fromStrides[i] * bytes, toStrides[i] * bytes);
            }
        }
        merge();
        int inner = rank - 1;
        int across = inner;
        if (from[inner] != bytes) {
            for (int i = 0; i < inner; i++) {
                across = from[i] == bytes ? i : across;
            }
        }
        run = across != inner && to[inner] == bytes ? runUpTo(across) : NONE;
        int[] taken = Arrays.copyOf(run, run.length + 1);
        taken[run.length] = inner;
        outer = others(taken);
        columns = count(run);
        step = (int) Math.min(columns, RUN_BYTES / bytes);
        tiles = Math.ceilDiv(size[inner], (long) ROWS);
    }

    /** Copies {@code source} to {@code target}, of the same shape and type; the two must not overlap. */
    static void copy(Tensor source, Tensor target) {
        of(source, target).copy(source.address(), target.address());
    }

    /** Prepares what {@link #copy} does. */
    static StridedCopy of(Tensor source, Tensor target) {
        return new StridedCopy(source.dtype().bytes(), source.shape(), source.sharedStrides(), target.sharedStrides());
    }

    private void insert(long n, long fromStep, long toStep) {
        int at = 0;
        while (at < rank && Math.abs(to[at]) > Math.abs(toStep)) {
            at++;
        }
        for (int i = rank; i > at; i--) {
            size[i] = size[i - 1];
            from[i] = from[i - 1];
            to[i] = to[i - 1];
        }
        size[at] = n;
        from[at] = fromStep;
        to[at] = toStep;
        rank++;
    }

    private void merge() {
        if (rank == 0) {
            rank = 1;
            size[0] = 1;
            from[0] = bytes;
            to[0] = bytes;
            return;
        }
        int k = 0;
        for (int i = 1; i < rank; i++) {
            if (from[k] == size[i] * from[i] && to[k] == size[i] * to[i]) {
                size[k] *= size[i];
            } else {
                size[++k] = size[i];
            }
            from[k] = from[i];
            to[k] = to[i];
        }
        rank = k + 1;
    }

    /** Copies from the first element of a source, at an address, to that of a target. */
    void copy(long sourceAddress, long targetAddress) {
        source = sourceAddress;
        target = targetAddress;
        long n = size[rank - 1];
        if (empty) {
            return;
        }
        if (run.length > 0) {
            Parallel.forRange(count(outer) * tiles, Math.max(1, GRAIN / (Math.min(ROWS, n) * columns)), this);
        } else if (isFlat()) {
            Parallel.forRange(n, GRAIN * 8, this);
        } else {
            Parallel.forRange(count(outer), Math.max(1, GRAIN / n), this);
        }
    }

    private boolean isFlat() {
        return rank == 1 && from[0] == bytes && to[0] == bytes;
    }

    /** Copies a range of tiles, elements or lines; called by the thread pool. */
    @Override
    public void run(long first, long end) {
        if (run.length > 0) {
            transpose(first, end);
        } else if (isFlat()) {
            MemorySegment.copy(ALL, source + first * bytes, ALL, target + first * bytes, (end - first) * bytes);
        } else {
            int inner = rank - 1;
            for (long r = first; r < end; r++) {
                line(source + offset(r, from, outer), from[inner], target + offset(r, to, outer), to[inner],
                        size[inner]);
            }
        }
    }

    /** Returns the dimensions whose elements follow one another in the source, the innermost last. */
    private int[] runUpTo(int across) {
        int[] dims = {across};
        for (int i = 0; i < rank - 1; i++) {
            if (from[i] == from[dims[0]] * size[dims[0]] && size[dims[0]] > 1) {
                int[] longer = new int[dims.length + 1];
                longer[0] = i;
                System.arraycopy(dims, 0, longer, 1, dims.length);
                dims = longer;
                i = -1;
            }
        }
        return dims;
    }

    /** Copies between the innermost dimension of the target and the dimensions {@link #run} of the source. */
    private void transpose(long firstJob, long endJob) {
        if (bytes == 4 && Gemm.isAvailable()) {
            try (Transposition matrices = Transposition.acquire()) {
                transpose(firstJob, endJob, matrices);
            }
            return;
        }
        int inner = rank - 1;
        Block buffer = HostAllocator.shared().allocate(ROWS * PITCH);
        try {
            for (long job = firstJob; job < endJob; job++) {
                long first = job % tiles * ROWS;
                int rows = (int) Math.min(ROWS, size[inner] - first);
                long s = source + offset(job / tiles, from, outer) + first * from[inner];
                long t = target + offset(job / tiles, to, outer) + first * bytes;
                for (long c = 0; c < columns; c += step) {
                    tile(s + c * bytes, t, c, (int) Math.min(step, columns - c), rows, buffer.address());
                }
            }
        } finally {
            HostAllocator.shared().free(buffer);
        }
    }

    /** Copies between the innermost dimension of the target and the dimensions {@link #run} of the source. */
    private void transpose(long firstJob, long endJob, Transposition matrices) {
        int inner = rank - 1;
        boolean single = tiles == 1 && step == columns && outer.length > 0;
        int next = single ? outer[outer.length - 1] : inner;
        for (long job = firstJob, count; job < endJob; job += count) {
            count = single ? Math.min(endJob - job, size[next] - job % size[next]) : 1;
            long first = job % tiles * ROWS;
            long rows = Math.min(ROWS, size[inner] - first);
            long s = source + offset(job / tiles, from, outer) + first * from[inner];
            long t = target + offset(job / tiles, to, outer) + first * bytes;
            for (long c = 0; c < columns; c += step) {
                matrices(matrices, s, t, c, Math.min(step, columns - c), rows, count, next);
            }
        }
    }

    /** Copies columns from {@code first} on of one matrix, or of several along dimension {@code next}. */
    private void matrices(Transposition matrices, long s, long t, long first, long n, long rows, long count, int next) {
        int innermost = run[run.length - 1];
        for (long c = first, length; c < first + n; c += length) {
            length = Math.min(first + n - c, size[innermost] - c % size[innermost]);
            matrices.from(s + c * bytes, from[rank - 1], from[next])
                    .to(t + offset(c, to, run), to[innermost], to[next]).copy(count, length, rows);
        }
    }

    /** Copies {@code n} columns, which begin with column {@code first}. Short rows are read without buffer. */
    private void tile(long s, long t, long first, int n, int rows, long buffer) {
        long row = from[rank - 1];
        boolean direct = n * bytes < 64;
        for (int r = 0; r < rows && !direct; r++) {
            MemorySegment.copy(ALL, s + r * row, ALL, buffer + (long) r * PITCH, (long) n * bytes);
        }
        for (int c = 0; c < n; c++) {
            line(direct ? s + (long) c * bytes : buffer + (long) c * bytes, direct ? row : PITCH,
                    t + offset(first + c, to, run), bytes, rows);
        }
    }

    /** Returns the dimensions but these. */
    private int[] others(int... dims) {
        int[] rest = new int[rank];
        int n = 0;
        for (int i = 0; i < rank; i++) {
            boolean listed = false;
            for (int d : dims) {
                listed |= d == i;
            }
            rest[n] = i;
            n += listed ? 0 : 1;
        }
        return Arrays.copyOf(rest, n);
    }

    private long count(int[] dims) {
        long n = 1;
        for (int d : dims) {
            n *= size[d];
        }
        return n;
    }

    private long offset(long index, long[] strides, int[] dims) {
        long offset = 0;
        for (int i = dims.length - 1; i > 0; i--) {
            offset += index % size[dims[i]] * strides[dims[i]];
            index /= size[dims[i]];
        }
        return dims.length == 0 ? 0 : offset + index * strides[dims[0]];
    }

    private void line(long s, long sStep, long t, long tStep, long n) {
        if (sStep == bytes && tStep == bytes) {
            MemorySegment.copy(ALL, s, ALL, t, n * bytes);
            return;
        }
        for (long i = 0; i < n; i += Integer.MAX_VALUE) {
            elements(s + i * sStep, sStep, t + i * tStep, tStep, (int) Math.min(Integer.MAX_VALUE, n - i));
        }
    }

    private void elements(long s, long sStep, long t, long tStep, int n) {
        switch (bytes) {
            case 1 -> {
                for (int i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_BYTE, t + i * tStep, ALL.get(ValueLayout.JAVA_BYTE, s + i * sStep));
                }
            }
            case 2 -> {
                for (int i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, s + i * sStep));
                }
            }
            case 4 -> {
                for (int i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_INT_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_INT_UNALIGNED, s + i * sStep));
                }
            }
            default -> {
                for (int i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, s + i * sStep));
                }
            }
        }
    }
}
