package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that normalises exponentials along the middle dimension of {@code [outer, size, inner]}, row-major. Each
 * method queues one operation and returns whether it could; where not, nothing was queued. Safe for use by several
 * threads.
 */
public interface Softmaxer {
    /**
     * What is asked for.
     *
     * @param type of all operands
     * @param logarithms whether the results' logarithms are wanted
     * @param outer how many matrices
     * @param size of a line
     * @param inner how many lines a matrix has
     */
    record Call(DType type, boolean logarithms, int outer, int size, int inner) { }

    /** Tells whether it takes a type. */
    boolean takes(DType type);

    /** Sets {@code y} to what becomes of {@code x}. */
    boolean forward(Call call, long x, long y);

    /** Sets {@code x} to its gradient from {@code y} and {@code g}, that of y. */
    boolean backward(Call call, long y, long g, long x);
}
