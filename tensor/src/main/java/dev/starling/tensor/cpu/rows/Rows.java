package dev.starling.tensor.cpu.rows;

/**
 * Inner loops over f32 matrices of {@code rows × columns} at raw addresses: the columns of a row are adjacent, rows are
 * {@code stride} bytes apart. Per-column operands are dense arrays of floats. Callers divide work into blocks of rows.
 */
public interface Rows {
    /** Adds to {@code sum[c]} and {@code squares[c]} the sums over rows of {@code x - pivot[c]} and of its square. */
    void moments(long x, long stride, int rows, int columns, long pivot, long sum, long squares);

    /**
     * Adds to {@code sum[c]} and {@code product[c]} the sums over rows of {@code g} and of {@code g·(x - mean[c])},
     * where {@code g} counts as 0 unless {@code y > 0}, if {@code y} is not the address 0.
     */
    void gradientMoments(long g, long x, long y, long stride, int rows, int columns, long mean, long sum, long product);

    /** Adds to {@code sum[c]} the sum over rows. */
    void columnSums(long x, long stride, int rows, int columns, long sum);

    /** Sets {@code extreme[c]} to the maximum, or minimum, of itself and the rows; NaN wins. */
    void columnExtremes(long x, long stride, int rows, int columns, long extreme, boolean max);

    /** Returns the sum of {@code n} adjacent elements. */
    double sum(long x, long n);

    /** Returns the maximum, or minimum, of {@code n > 0} adjacent elements; NaN if any is NaN. */
    float extreme(long x, long n, boolean max);
}
