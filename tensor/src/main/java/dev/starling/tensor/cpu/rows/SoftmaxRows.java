package dev.starling.tensor.cpu.rows;

/**
 * Softmax and related functions over dense f32 matrices of {@code rows × columns} at raw addresses,
 * {@code columns > 0}.
 */
public interface SoftmaxRows {
    /** Writes eˣ/Σeˣ. */
    void softmax(long x, long y, int rows, int columns);

    /** Writes x - ln Σeˣ. */
    void logSoftmax(long x, long y, int rows, int columns);

    /** Writes y·(g - Σ g·y). */
    void softmaxGradient(long y, long g, long dx, int rows, int columns);

    /** Writes g - eʸ·Σg. */
    void logSoftmaxGradient(long y, long g, long dx, int rows, int columns);

    /** Writes for each row its maximum and ln Σ e^(x - maximum), adjacent. */
    void logSums(long x, long y, int rows, int columns);

    /** Returns Σ (x - maximum) of one row. */
    double distances(long x, float max, int columns);

    /**
     * Writes (e^(x - maximum - log) - shift)·scale[row], where {@code logSums} has the maximum and the logarithm of
     * each row; scales are {@code scaleStride} bytes apart.
     */
    void expGradient(long x, long logSums, float shift, long scale, long scaleStride, long dx, int rows, int columns);
}
