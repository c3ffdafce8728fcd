package dev.starling.cuda.blas;

import dev.starling.tensor.DType;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/**
 * A product as libraries with column-major matrices take it: {@code D [m, n] = left [m, k] · right [k, n]}. A row-major
 * matrix is the transpose of a column-major one, therefore {@code D} is the transpose of the result, the left operand
 * is that of the {@link Product}'s {@code b}, and the right one that of its {@code a}.
 *
 * @param type of all matrices
 * @param m rows of {@code D}, the product's columns
 * @param n columns of {@code D}, the product's rows
 * @param k summands
 * @param left how the left operand lies
 * @param right how the right operand lies
 * @param batches how many products
 * @param resultBatch distance of results
 * @param bias whether {@code m} values are added to every column
 * @param after what is done with the sums in the same kernel
 * @param alignment the greatest power of two, up to 256, that divides all addresses
 */
public record MatrixCall(DType type, long m, long n, long k, Operand left, Operand right, int batches,
        long resultBatch, boolean bias, After after, int alignment) {
    private static final int MAX_ALIGNED = 256;
    /** What the distance of columns of a side matrix of bits, and of one of numbers, must be a multiple of. */
    private static final int BITS = 128;
    private static final int NUMBERS = 8;

    /** What is done with the sums, some of it with a matrix beside the result. */
    public enum After {
        /** They are the result. */
        NOTHING,
        /** Negative ones become 0. */
        RELU,
        /** GELU by tanh. */
        GELU,
        /** GELU by tanh; what it was applied to goes to the side matrix, which lies as the result does. */
        GELU_KEPT,
        /** Those become 0 whose bit in the side matrix is 0; its columns begin at multiples of 128 bits. */
        RELU_GRADIENT,
        /** They are multiplied with GELU's slope at the elements of the side matrix, which lies as the result does. */
        GELU_GRADIENT,
        /** They are the result; beside it the {@code n} columns of the right operand are summed. */
        COLUMN_SUMS;

        /** Returns those whose names a text lists, with commas between, or throws an error that names the property. */
        static Set<After> parse(String property, String text) {
            Set<After> all = EnumSet.noneOf(After.class);
            for (String name : text.split(",")) {
                String word = name.strip().toUpperCase(Locale.ROOT);
                if (!word.isEmpty()) {
                    all.add(Arrays.stream(values()).filter(a -> a != NOTHING && a.name().equals(word)).findAny()
                            .orElseThrow(() -> new IllegalArgumentException(property + " lists '" + name
                                    + "': give some of " + Arrays.toString(values()).toLowerCase(Locale.ROOT)
                                    + " but nothing")));
                }
            }
            return all;
        }
    }

    /**
     * How an operand lies.
     *
     * @param transposed whether it is the transpose of the column-major matrix in memory
     * @param leading distance of that matrix's columns
     * @param batch distance of matrices, 0 where one is for all
     */
    public record Operand(boolean transposed, long leading, long batch) {
        /** Returns how a matrix of the given sizes and distances of rows and columns lies, its transpose as plain. */
        static Operand of(long rows, long columns, long row, long column, long batch) {
            if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
                return new Operand(false, rows == 1 ? columns : row, batch);
            }
            if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
                return new Operand(true, columns == 1 ? rows : column, batch);
            }
            return null;
        }
    }

    /** Tells whether libraries take a product's left operand where it lies; else it has to be copied. */
    public static boolean takesA(Product p) {
        return a(p) != null && nonNegative(p.aBatch());
    }

    /** Tells whether libraries take a product's right operand where it lies; else it has to be copied. */
    public static boolean takesB(Product p) {
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

    private static Operand a(Product p) {
        return Operand.of(p.m(), p.k(), p.aRow(), p.aColumn(), last(p.aBatch()));
    }

    private static Operand b(Product p) {
        return Operand.of(p.k(), p.n(), p.bRow(), p.bColumn(), last(p.bBatch()));
    }

    private static long last(long[] values) {
        return values.length == 0 ? 0 : values[values.length - 1];
    }

    /** Returns how far the operand reaches that reaches farther, from its first element to behind its last. */
    long span() {
        return Math.max(span(left, m, k), span(right, k, n));
    }

    private long span(Operand operand, long rows, long columns) {
        return (batches - 1) * operand.batch + operand.leading * (operand.transposed ? rows : columns);
    }

    /** Tells whether there is a matrix beside the result. */
    public boolean hasSide() {
        return after == After.GELU_KEPT || after == After.RELU_GRADIENT || after == After.GELU_GRADIENT;
    }

    /** Returns the distance of columns of the side matrix, in elements or bits. */
    public long sideLeading() {
        return after == After.RELU_GRADIENT ? sideBits(m) : m;
    }

    /** Returns how many bits a column of a side matrix of bits takes. */
    public static long sideBits(long m) {
        return Math.ceilDiv(m, BITS) * BITS;
    }

    /** Tells whether libraries take a product's side matrix that lies as the result does. */
    public static boolean takesSide(Product p) {
        return p.n() % NUMBERS == 0;
    }

    /** Returns the call for all of a product's innermost batch dimension; both operands must be taken. */
    public static MatrixCall of(Product p, DType type, boolean bias, After after, long... addresses) {
        long bits = MAX_ALIGNED;
        for (long address : addresses) {
            bits |= address;
        }
        int batches = p.batch().length == 0 ? 1 : Math.toIntExact(last(p.batch()));
        return new MatrixCall(type, p.n(), p.m(), p.k(), b(p), a(p), batches, p.m() * p.n(), bias, after,
                (int) Long.lowestOneBit(bits));
    }
}
