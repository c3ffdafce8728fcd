package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Copies elements of any type between layouts. Dimensions are merged and ordered by the target's strides. If source and
 * target differ in their innermost dimension, tiles pass through a buffer that stays in the first-level cache: it is
 * filled with runs of adjacent source elements, and read across them into runs of adjacent target elements. So every
 * cache line is fetched once and used completely, also if rows are a power of two apart and share places of a cache.
 */
final class StridedCopy {
    /** Target elements that a tile writes in one run. */
    private static final int ROWS = 64;
    /** Source bytes that a tile reads in one run. */
    private static final int RUN_BYTES = 256;
    /** Distance of rows in the buffer: an odd number of cache lines. */
    private static final int PITCH = RUN_BYTES + 64;
    private static final long GRAIN = 1 << 15;

    private final int bytes;
    private final long[] size;
    private final long[] from;
    private final long[] to;
    private int rank;

    private StridedCopy(Tensor source, Tensor target) {
        bytes = source.dtype().bytes();
        size = new long[source.rank() + 1];
        from = new long[size.length];
        to = new long[size.length];
        for (int i = source.rank() - 1; i >= 0; i--) {
            if (source.size(i) != 1) {
                insert(source.size(i), source.strides()[i] * bytes, target.strides()[i] * bytes);
            }
        }
        merge();
    }

    /** Copies {@code source} to {@code target}, of the same shape and type; the two must not overlap. */
    static void copy(Tensor source, Tensor target) {
        if (source.count() == 0) {
            return;
        }
        new StridedCopy(source, target).run(source.address(), target.address());
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

    private void run(long source, long target) {
        int inner = rank - 1;
        int across = inner;
        if (from[inner] != bytes) {
            for (int i = 0; i < inner; i++) {
                across = from[i] == bytes ? i : across;
            }
        }
        if (across != inner && to[inner] == bytes) {
            transpose(source, target, run(across));
            return;
        }
        int[] outer = others(inner);
        long rows = count(outer);
        long n = size[inner];
        if (rank == 1 && from[0] == bytes && to[0] == bytes) {
            Parallel.forRange(n, GRAIN * 8, (a, b) -> MemorySegment.copy(ALL, source + a * bytes, ALL,
                    target + a * bytes, (b - a) * bytes));
            return;
        }
        Parallel.forRange(rows, Math.max(1, GRAIN / n), (a, b) -> {
            for (long r = a; r < b; r++) {
                line(source + offset(r, from, outer), from[inner], target + offset(r, to, outer), to[inner], n);
            }
        });
    }

    /** Returns the dimensions whose elements follow one another in the source, the innermost last. */
    private int[] run(int across) {
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

    /** Copies between the innermost dimension of the target and the dimensions {@code run} of the source. */
    private void transpose(long source, long target, int[] run) {
        int inner = rank - 1;
        int[] taken = Arrays.copyOf(run, run.length + 1);
        taken[run.length] = inner;
        int[] outer = others(taken);
        long columns = count(run);
        int step = (int) Math.min(columns, RUN_BYTES / bytes);
        long tiles = Math.ceilDiv(size[inner], (long) ROWS);
        long jobs = count(outer) * tiles;
        Parallel.forRange(jobs, Math.max(1, GRAIN / (Math.min(ROWS, size[inner]) * columns)), (a, b) -> {
            Block buffer = HostAllocator.shared().allocate(ROWS * PITCH);
            try {
                for (long job = a; job < b; job++) {
                    long first = job % tiles * ROWS;
                    int rows = (int) Math.min(ROWS, size[inner] - first);
                    long s = source + offset(job / tiles, from, outer) + first * from[inner];
                    long t = target + offset(job / tiles, to, outer) + first * bytes;
                    for (long c = 0; c < columns; c += step) {
                        tile(s + c * bytes, t, c, (int) Math.min(step, columns - c), rows, run, buffer.address());
                    }
                }
            } finally {
                HostAllocator.shared().free(buffer);
            }
        });
    }

    /** Copies {@code columns} columns, which begin with column {@code first}. Short rows are read without buffer. */
    private void tile(long source, long target, long first, int columns, int rows, int[] run, long buffer) {
        long step = from[rank - 1];
        boolean direct = columns * bytes < 64;
        for (int r = 0; r < rows && !direct; r++) {
            MemorySegment.copy(ALL, source + r * step, ALL, buffer + (long) r * PITCH, (long) columns * bytes);
        }
        for (int c = 0; c < columns; c++) {
            long t = target + offset(first + c, to, run);
            line(direct ? source + (long) c * bytes : buffer + (long) c * bytes, direct ? step : PITCH, t, bytes, rows);
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
