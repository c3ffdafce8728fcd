package dev.starling.tensor.cpu.rows;

/**
 * Inner loops of pooling over f32 images whose channels are adjacent. Each makes a run of pixels with {@code columns}
 * channels: the first from the taps where they are, each next one from taps {@code step} bytes further.
 */
public interface PoolRows {
    /** Plain Java: what the loops mean. */
    PoolRows SCALAR = new ScalarPoolRows();

    /** The fastest implementation that this process can run. */
    PoolRows FASTEST = VectorApi.PRESENT ? new VectorPoolRows() : SCALAR;

    /**
     * Writes to the dense runs {@code y} and {@code index} (i32) the greatest element of the taps, or the first NaN,
     * and the place of the first tap that has it; places grow by {@code placeStep} per pixel.
     */
    void greatest(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns);

    /** Writes to pixels {@code yStep} bytes apart the weighted sum of the taps. */
    void weighted(Taps taps, long step, long y, long yStep, int pixels, int columns);

    /**
     * Writes to pixels {@code yStep} bytes apart the sum of those elements of the taps whose index (i32,
     * {@code toIndex} bytes behind the element) is the pixel's own place: {@code place}, then {@code placeStep} further
     * each. Returns how many these were.
     */
    long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns);
}
