package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that normalises on a device. Matrices are row-major, all lies without gaps and at multiples of 16 bytes;
 * weights, statistics and their gradients are f32. Each method queues one operation and returns whether it could; where
 * not, nothing was queued. Safe for use by several threads.
 */
public interface Normalizer {
    /** What every address is a multiple of. */
    int ALIGNMENT = 16;

    /** Tells whether it normalises a type beside weights of another, batches or else rows of so many channels. */
    boolean takes(DType type, DType weights, boolean batch, long channels);

    /** Sets {@code y}, the means and the inverse deviations, of the biased variance and epsilon. */
    boolean forward(NormalizationCall call, long x, long gamma, long beta, long y, long mean, long inverse);

    /**
     * Sets the gradients from {@code g}, that of y.
     *
     * @param positive of a call with ReLU, a bit for each element, the lowest of a byte first: whether y was positive
     */
    boolean backward(NormalizationCall call, long g, long x, long positive, long gamma, long mean, long inverse,
            long dx, long dgamma, long dbeta);
}
