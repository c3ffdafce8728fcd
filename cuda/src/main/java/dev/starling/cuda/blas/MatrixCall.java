package dev.starling.cuda.blas;

import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.cuda.kernels.Product;
import dev.starling.tensor.DType;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A product as libraries with column-major matrices compute it: {@code D [m, n] = left [m, k] · right [k, n]}. A
 * row-major matrix is the transpose of a column-major one. Therefore {@code D} is the transpose of the result, the left
 * operand is the transpose of the {@link Product}'s {@code b}, and the right one that of its {@code a}.
 *
 * @param type of all matrices
 * @param m rows of {@code D}, the product's columns
 * @param n columns of {@code D}, the product's rows
 * @param k summands of each element
 * @param left layout of the left operand
 * @param right layout of the right operand
 * @param batches number of products
 * @param resultBatch distance of results, in elements
 * @param bias whether {@code m} values are added to every column
 * @param after epilogue that the same kernel computes
 * @param alignment the greatest power of two, up to 256, that divides all addresses
 */
public record MatrixCall(DType type, long m, long n, long k, Operand left, Operand right, int batches,
        long resultBatch, boolean bias, ProductEpilogue after, int alignment) {
    private static final int MAX_ALIGNMENT = 256;
    /** Columns of a side matrix of bits begin at multiples of this. */
    private static final int BIT_ALIGNMENT = 128;
    /** Columns of a side matrix of numbers begin at multiples of this. */
    private static final int NUMBER_ALIGNMENT = 8;

    /**
     * Layout of an operand.
     *
     * @param transposed whether the operand is the transpose of the column-major matrix in memory
     * @param leading distance of that matrix's columns
     * @param batch distance of matrices, 0 if all products share one
     */
    public record Operand(boolean transposed, long leading, long batch) {
        /** Returns the layout for sizes and strides, plain or transposed, or {@code null} if the matrix is neither. */
        static @Nullable Operand of(long rows, long columns, long row, long column, long batch) {
            if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
                return new Operand(false, rows == 1 ? columns : row, batch);
            }
            if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
                return new Operand(true, columns == 1 ? rows : column, batch);
            }
            return null;
        }
    }

    /** Returns whether libraries can read a product's left operand in place; if not, it has to be copied. */
    public static boolean supportsA(Product p) {
        return a(p) != null && nonNegative(p.aBatch());
    }

    /** Returns whether libraries can read a product's right operand in place; if not, it has to be copied. */
    public static boolean supportsB(Product p) {
        return b(p) != null && nonNegative(p.bBatch());
    }

    private static boolean nonNegative(long[] strides) {
        for (long stride : strides) {
            if (stride < 0) {
                return false;
            }
        }
        return true;
    }

    private static @Nullable Operand a(Product p) {
        return Operand.of(p.m(), p.k(), p.aRow(), p.aColumn(), last(p.aBatch()));
    }

    private static @Nullable Operand b(Product p) {
        return Operand.of(p.k(), p.n(), p.bRow(), p.bColumn(), last(p.bBatch()));
    }

    private static long last(long[] values) {
        return values.length == 0 ? 0 : values[values.length - 1];
    }

    /** Returns the distance from the first element to the end of the operand that spans more memory, in elements. */
    long span() {
        return Math.max(span(left, m, k), span(right, k, n));
    }

    private long span(Operand operand, long rows, long columns) {
        return (batches - 1) * operand.batch + extent(operand, rows, columns);
    }

    /** Returns the distance from the first element of one matrix to its end, in elements. */
    private static long extent(Operand operand, long rows, long columns) {
        return operand.leading * (operand.transposed ? rows : columns);
    }

    /** Returns whether an operand's matrices lie between the columns of each other, as heads side by side do. */
    boolean isInterleaved() {
        return batches > 1 && (left.batch > 0 && left.batch < extent(left, m, k)
                || right.batch > 0 && right.batch < extent(right, k, n));
    }

    /** Returns whether the epilogue uses a side matrix. */
    public boolean hasSide() {
        return after == ProductEpilogue.GELU_KEPT || after == ProductEpilogue.RELU_GRADIENT
                || after == ProductEpilogue.GELU_GRADIENT;
    }

    /** Returns the distance of columns of the side matrix, in elements or bits. */
    public long sideLeading() {
        return after == ProductEpilogue.RELU_GRADIENT ? sideBits(m) : m;
    }

    /** Returns the length of a column in a side matrix of bits. */
    public static long sideBits(long m) {
        return Math.ceilDiv(m, BIT_ALIGNMENT) * BIT_ALIGNMENT;
    }

    /** Returns whether libraries support a side matrix of numbers, in the result's layout, for a product. */
    public static boolean supportsSide(Product p) {
        return p.n() % NUMBER_ALIGNMENT == 0;
    }

    /** Returns the call for a product's innermost batch dimension; both operands must be supported. */
    public static MatrixCall of(Product p, DType type, boolean bias, ProductEpilogue after, long... addresses) {
        long bits = MAX_ALIGNMENT;
        for (long address : addresses) {
            bits |= address;
        }
        int batches = p.batch().length == 0 ? 1 : Math.toIntExact(last(p.batch()));
        return new MatrixCall(type, p.n(), p.m(), p.k(), Objects.requireNonNull(b(p)),
                Objects.requireNonNull(a(p)), batches, p.m() * p.n(), bias, after,
                (int) Long.lowestOneBit(bits));
    }
}
