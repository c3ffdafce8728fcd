package dev.starling.tensor.cpu;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import org.jspecify.annotations.Nullable;

/**
 * A reduction's operand with as few dimensions as its layout allows, outermost (largest stride) first: dimensions of
 * size 1 are dropped, and adjacent ones of the same kind (reduced or kept) are merged.
 */
final class ReducedLayout {
    int rank;
    final long[] size;
    final long[] stride;
    final boolean[] reduced;
    /** The stride in the result; 0 for reduced dimensions. */
    final long[] outStride;

    private ReducedLayout(int capacity) {
        size = new long[capacity];
        stride = new long[capacity];
        reduced = new boolean[capacity];
        outStride = new long[capacity];
    }

    /** Returns the folded form of {@code x}, or {@code null} if it has strides of 0 or less. */
    static @Nullable ReducedLayout of(Tensor x, Axes axes) {
        int n = x.rank();
        ReducedLayout f = new ReducedLayout(n);
        long out = 1;
        for (int i = n - 1; i >= 0; i--) {
            boolean reduce = axes.contains(i);
            if (x.size(i) != 1) {
                if (x.stride(i) <= 0) {
                    return null;
                }
                f.insert(x.size(i), x.stride(i), reduce, reduce ? 0 : out);
            }
            out *= reduce ? 1 : x.size(i);
        }
        f.merge();
        return f;
    }

    /** Returns the form of a dense matrix whose rows are reduced to one. */
    static ReducedLayout ofRows(long rows, long columns) {
        ReducedLayout f = new ReducedLayout(2);
        if (columns != 1) {
            f.insert(columns, 1, false, 1);
        }
        if (rows != 1) {
            f.insert(rows, columns, true, 0);
        }
        f.merge();
        return f;
    }

    private void insert(long n, long step, boolean reduce, long outStep) {
        int at = 0;
        while (at < rank && stride[at] > step) {
            at++;
        }
        for (int i = rank; i > at; i--) {
            size[i] = size[i - 1];
            stride[i] = stride[i - 1];
            reduced[i] = reduced[i - 1];
            outStride[i] = outStride[i - 1];
        }
        size[at] = n;
        stride[at] = step;
        reduced[at] = reduce;
        outStride[at] = outStep;
        rank++;
    }

    private void merge() {
        int to = 0;
        for (int i = 1; i < rank; i++) {
            if (reduced[i] == reduced[to] && stride[to] == size[i] * stride[i]
                    && outStride[to] == size[i] * outStride[i]) {
                size[to] *= size[i];
            } else {
                to++;
                size[to] = size[i];
                reduced[to] = reduced[i];
            }
            stride[to] = stride[i];
            outStride[to] = outStride[i];
        }
        rank = rank == 0 ? 0 : to + 1;
    }

    /** Returns the product of the sizes of the outer dimensions (all but the last {@code inner}) of one kind. */
    long count(boolean reduce, int inner) {
        long n = 1;
        for (int i = 0; i < rank - inner; i++) {
            n *= reduced[i] == reduce ? size[i] : 1;
        }
        return n;
    }

    /**
     * Returns the offset, by strides or by result strides, of element {@code index} of the outer dimensions of one
     * kind.
     */
    long offset(long index, boolean reduce, int inner, boolean result) {
        long offset = 0;
        for (int i = rank - inner - 1; i >= 0; i--) {
            if (reduced[i] == reduce) {
                offset += index % size[i] * (result ? outStride[i] : stride[i]);
                index /= size[i];
            }
        }
        return offset;
    }
}
