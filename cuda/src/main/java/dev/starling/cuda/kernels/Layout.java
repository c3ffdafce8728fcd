package dev.starling.cuda.kernels;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The memory layout of operands that a kernel walks together. Dimensions of size 1 are dropped, and those that are
 * contiguous in all operands are merged. The host's side of the struct {@code Layout} in {@code prelude.cuh}. Each
 * thread reuses its instances.
 */
final class Layout {
    /** The most elements of one launch: below it, divisions by multiplication are exact. */
    static final long MAX_COUNT = 1L << 30;
    private static final int RANK = Shape.MAX_RANK;
    private static final int MAX_OPERANDS = 6;
    private static final ThreadLocal<Layout> MINE = ThreadLocal.withInitial(Layout::new);
    private static final ThreadLocal<Layout> FOLDED = ThreadLocal.withInitial(Layout::new);

    private final long[] sizes = new long[RANK];
    private final long[][] strides = new long[MAX_OPERANDS][RANK];
    private int rank;
    private int operands;

    /** An action on a piece of the operands; {@code offsets} count elements from each operand's first. */
    interface Piece {
        void run(Layout layout, long[] offsets);
    }

    private Layout() { }

    /** Lays out operands that broadcast to {@code shape}, in the order of dimensions of the first one's memory. */
    static Layout of(Shape shape, Tensor... tensors) {
        Layout layout = MINE.get();
        layout.begin(shape, tensors);
        layout.sort();
        layout.merge();
        return layout;
    }

    /** Lays out operands that broadcast to {@code shape} in row-major order, for kernels that number elements. */
    static Layout rowMajor(Shape shape, Tensor... tensors) {
        Layout layout = MINE.get();
        layout.begin(shape, tensors);
        layout.merge();
        return layout;
    }

    /** Lays out operands by their strides, one for each size, in row-major order. */
    static Layout rowMajor(long[] sizes, long[]... strides) {
        Layout layout = MINE.get();
        layout.operands = strides.length;
        layout.rank = 0;
        for (int d = 0; d < sizes.length; d++) {
            if (sizes[d] != 1) {
                layout.sizes[layout.rank] = sizes[d];
                for (int k = 0; k < strides.length; k++) {
                    layout.strides[k][layout.rank] = strides[k][d];
                }
                layout.rank++;
            }
        }
        layout.merge();
        return layout;
    }

    /** Lays out the dimensions that a fold reduces, in row-major order if the elements' numbers matter. */
    static Layout folded(Shape shape, boolean rowMajor, Tensor... tensors) {
        Layout layout = FOLDED.get();
        layout.begin(shape, tensors);
        if (!rowMajor) {
            layout.sort();
        }
        layout.merge();
        return layout;
    }

    private void begin(Shape shape, Tensor[] tensors) {
        operands = tensors.length;
        rank = 0;
        for (int d = 0; d < shape.rank(); d++) {
            if (shape.dim(d) == 1) {
                continue;
            }
            sizes[rank] = shape.dim(d);
            for (int k = 0; k < operands; k++) {
                strides[k][rank] = stride(tensors[k], d - shape.rank());
            }
            rank++;
        }
    }

    /** Returns the stride of a dimension, counted from the end as -1, -2, …; 0 where the operand is broadcast. */
    static long stride(Tensor x, int fromEnd) {
        int own = x.rank() + fromEnd;
        return own < 0 || x.size(own) == 1 ? 0 : x.stride(own);
    }

    /** Sorts the dimensions by the first operand's strides, the largest first. */
    private void sort() {
        for (int i = 1; i < rank; i++) {
            for (int j = i; j > 0 && Math.abs(strides[0][j - 1]) < Math.abs(strides[0][j]); j--) {
                swap(j - 1, j);
            }
        }
    }

    private void swap(int i, int j) {
        long size = sizes[i];
        sizes[i] = sizes[j];
        sizes[j] = size;
        for (int k = 0; k < operands; k++) {
            long stride = strides[k][i];
            strides[k][i] = strides[k][j];
            strides[k][j] = stride;
        }
    }

    private void merge() {
        int to = 0;
        for (int d = 1; d < rank; d++) {
            boolean merges = true;
            for (int k = 0; k < operands; k++) {
                merges &= strides[k][to] == strides[k][d] * sizes[d];
            }
            to = merges ? to : to + 1;
            sizes[to] = merges ? sizes[to] * sizes[d] : sizes[d];
            for (int k = 0; k < operands; k++) {
                strides[k][to] = strides[k][d];
            }
        }
        rank = Math.min(rank, to + 1);
        if (rank == 0) {
            rank = 1;
            sizes[0] = 1;
            for (int k = 0; k < operands; k++) {
                strides[k][0] = 1;
            }
        }
    }

    int rank() {
        return rank;
    }

    long size(int d) {
        return sizes[d];
    }

    long stride(int operand, int d) {
        return strides[operand][d];
    }

    long count() {
        long n = 1;
        for (int d = 0; d < rank; d++) {
            n *= sizes[d];
        }
        return n;
    }

    /** Returns whether an operand's elements are contiguous in the order of the walk. */
    boolean isDense(int operand) {
        return rank == 1 && strides[operand][0] == 1;
    }

    /**
     * Returns whether every operand can be read {@code width} elements at a time: along the innermost dimension its
     * elements are contiguous, or all the same element.
     *
     * @param tensors the operands; the first must be contiguous
     * @param offsets the first element of the walk in each operand
     */
    boolean allowsVectors(int width, Tensor[] tensors, long[] offsets) {
        int inner = rank - 1;
        if (strides[0][inner] != 1 || rank > 1 && sizes[inner] % width != 0) {
            return false;
        }
        for (int k = 0; k < operands; k++) {
            if (strides[k][inner] == 0) {
                continue;
            }
            int bytes = tensors[k].dtype().bytes();
            if (strides[k][inner] != 1 || (tensors[k].address() + offsets[k] * bytes) % ((long) width * bytes) != 0) {
                return false;
            }
            for (int d = 0; d < inner; d++) {
                if (strides[k][d] % width != 0) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Runs {@code piece} on pieces of at most {@code limit} elements. */
    void inPieces(long limit, Piece piece) {
        long n = count();
        if (n == 0) {
            return;
        }
        if (n <= limit) {
            piece.run(this, new long[operands]);
            return;
        }
        long[] offsets = new long[operands];
        long all = sizes[0];
        long rows = Math.max(1, limit / (n / all));
        if (rows >= 64) {
            rows &= -64;
        }
        Layout part = new Layout();
        for (long from = 0; from < all; from += rows) {
            part.copy(this);
            part.sizes[0] = Math.min(rows, all - from);
            part.dropFirstIfSingle();
            for (int k = 0; k < operands; k++) {
                offsets[k] = from * strides[k][0];
            }
            part.inPieces(limit, (layout, inner) -> {
                for (int k = 0; k < inner.length; k++) {
                    inner[k] += offsets[k];
                }
                piece.run(layout, inner);
            });
        }
    }

    private void copy(Layout other) {
        rank = other.rank;
        operands = other.operands;
        System.arraycopy(other.sizes, 0, sizes, 0, rank);
        for (int k = 0; k < operands; k++) {
            System.arraycopy(other.strides[k], 0, strides[k], 0, rank);
        }
    }

    private void dropFirstIfSingle() {
        if (rank > 1 && sizes[0] == 1) {
            rank--;
            System.arraycopy(sizes, 1, sizes, 0, rank);
            for (int k = 0; k < operands; k++) {
                System.arraycopy(strides[k], 1, strides[k], 0, rank);
            }
        }
    }

    /** Returns the size of the struct for a number of operands. */
    static int bytes(int operands) {
        return 8 + 3 * 4 * RANK + 8 * RANK * operands;
    }

    void write(MemorySegment to, int at, int operandsOfStruct) {
        if (operandsOfStruct != operands) {
            throw new IllegalArgumentException("the layout has " + operands + " operands, the struct "
                    + operandsOfStruct);
        }
        to.set(ValueLayout.JAVA_INT, at, rank);
        to.set(ValueLayout.JAVA_INT, at + 4, (int) count());
        for (int d = 0; d < rank; d++) {
            long size = sizes[d];
            int shift = size <= 1 ? 0 : 64 - Long.numberOfLeadingZeros(size - 1);
            long multiplier = (1L << 32) * ((1L << shift) - size) / size + 1;
            int offset = at + 8 + 4 * d;
            to.set(ValueLayout.JAVA_INT, offset, (int) size);
            to.set(ValueLayout.JAVA_INT, offset + 4 * RANK, (int) multiplier);
            to.set(ValueLayout.JAVA_INT, offset + 8 * RANK, shift);
            for (int k = 0; k < operands; k++) {
                to.set(ValueLayout.JAVA_LONG_UNALIGNED, at + 8 + 12L * RANK + 8L * (RANK * k + d), strides[k][d]);
            }
        }
    }
}
