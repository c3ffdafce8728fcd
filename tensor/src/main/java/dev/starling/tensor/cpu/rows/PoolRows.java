package dev.starling.tensor.cpu.rows;

/**
 * Inner loops of pooling over f32 images whose channels are adjacent. Each computes a run of pixels of {@code columns}
 * channels: the first pixel from the taps as given, each next one from taps {@code step} bytes further.
 */
public interface PoolRows {
    /**
     * Writes to the dense runs {@code y} and {@code index} (i32) the maximum of the taps, or the first NaN, and the
     * index of the first tap that has it; indices grow by {@code placeStep} per pixel.
     */
    void max(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns);

    /** Writes to pixels {@code yStep} bytes apart the weighted sum of the taps. */
    void weighted(Taps taps, long step, long y, long yStep, int pixels, int columns);

    /**
     * Writes to pixels {@code yStep} bytes apart the sum of those elements of the taps whose index (i32,
     * {@code toIndex} bytes after the element) equals the pixel's own: {@code place} for the first pixel,
     * {@code placeStep} more for each next one. Returns the number of these elements.
     */
    long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns);
}
