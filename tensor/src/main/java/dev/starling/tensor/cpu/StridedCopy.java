package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.Parallel;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Copies elements of any type between layouts. Dimensions are merged and ordered by the target's strides. If source and
 * target differ in their innermost dimension, both are traversed in square tiles, so that every fetched cache line is
 * used completely.
 */
final class StridedCopy {
    private static final int TILE = 32;
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
        if (across != inner) {
            tiles(source, target, across, inner);
            return;
        }
        long rows = count(inner, inner);
        long n = size[inner];
        if (rank == 1 && from[0] == bytes && to[0] == bytes) {
            Parallel.forRange(n, GRAIN * 8, (a, b) -> MemorySegment.copy(ALL, source + a * bytes, ALL,
                    target + a * bytes, (b - a) * bytes));
            return;
        }
        Parallel.forRange(rows, Math.max(1, GRAIN / n), (a, b) -> {
            for (long r = a; r < b; r++) {
                line(source + offset(r, from, inner, inner), from[inner], target + offset(r, to, inner, inner),
                        to[inner], n);
            }
        });
    }

    private void tiles(long source, long target, int across, int inner) {
        long rowTiles = Math.ceilDiv(size[across], (long) TILE);
        long jobs = count(across, inner) * rowTiles;
        Parallel.forRange(jobs, Math.max(1, GRAIN / (TILE * size[inner])), (a, b) -> {
            for (long job = a; job < b; job++) {
                long s = source + offset(job / rowTiles, from, across, inner);
                long t = target + offset(job / rowTiles, to, across, inner);
                long r0 = job % rowTiles * TILE;
                int rows = (int) Math.min(TILE, size[across] - r0);
                for (long c0 = 0; c0 < size[inner]; c0 += TILE) {
                    int columns = (int) Math.min(TILE, size[inner] - c0);
                    for (int r = 0; r < rows; r++) {
                        line(s + (r0 + r) * from[across] + c0 * from[inner], from[inner],
                                t + (r0 + r) * to[across] + c0 * to[inner], to[inner], columns);
                    }
                }
            }
        });
    }

    private long count(int skip, int alsoSkip) {
        long n = 1;
        for (int i = 0; i < rank; i++) {
            n *= i == skip || i == alsoSkip ? 1 : size[i];
        }
        return n;
    }

    private long offset(long index, long[] strides, int skip, int alsoSkip) {
        long offset = 0;
        for (int i = rank - 1; i >= 0; i--) {
            if (i != skip && i != alsoSkip) {
                offset += index % size[i] * strides[i];
                index /= size[i];
            }
        }
        return offset;
    }

    private void line(long s, long sStep, long t, long tStep, long n) {
        if (sStep == bytes && tStep == bytes) {
            MemorySegment.copy(ALL, s, ALL, t, n * bytes);
            return;
        }
        switch (bytes) {
            case 1 -> {
                for (long i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_BYTE, t + i * tStep, ALL.get(ValueLayout.JAVA_BYTE, s + i * sStep));
                }
            }
            case 2 -> {
                for (long i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, s + i * sStep));
                }
            }
            case 4 -> {
                for (long i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_INT_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_INT_UNALIGNED, s + i * sStep));
                }
            }
            default -> {
                for (long i = 0; i < n; i++) {
                    ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, t + i * tStep,
                            ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, s + i * sStep));
                }
            }
        }
    }
}
