package dev.starling.tensor.cpu.rows;

/** Layer normalisation of dense f32 matrices of {@code rows × columns} at raw addresses, {@code columns > 0}. */
public interface LayerNormRows {
    /**
     * Writes each row's mean and its inverse deviation {@code 1/√(variance + epsilon)}, and
     * {@code y = (x - mean)·inverse·gamma[c] + beta[c]}.
     */
    void normalize(long x, long y, int rows, int columns, long gamma, long beta, double epsilon, long mean,
            long inverse);

    /**
     * With {@code n = (x - mean)·inverse} and {@code h = g·gamma[c]}, writes
     * {@code dx = (h - mean(h) - n·mean(h·n))·inverse} and adds to {@code dgamma[c]} the sum over rows of {@code g·n},
     * to {@code dbeta[c]} that of {@code g}.
     */
    void gradient(long g, long x, long dx, int rows, int columns, long gamma, long mean, long inverse, long dgamma,
            long dbeta);
}
