package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.spi.Block;

/**
 * Inner loops of pooling over f32 images whose channels are adjacent. Each computes a run of pixels of {@code columns}
 * channels: the first pixel from the taps as given, each next one from taps {@code step} bytes further.
 */
public interface PoolRows {
    /** Taps that are always summed one after the other. */
    int FEW = 64;

    /**
     * Writes to the dense runs {@code y} and {@code index} (i32) the maximum of the taps, or the first NaN, and the
     * index of the first tap that has it; indices grow by {@code placeStep} per pixel.
     */
    void max(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns);

    /** Writes the weighted sum of the taps from {@code begin} to {@code end - 1}, one after the other. */
    void weighted(Taps taps, int begin, int end, long step, long y, long yStep, int pixels, int columns);

    /**
     * Writes to pixels {@code yStep} bytes apart the weighted sum of the taps. That of many is a sum of sums of fewer:
     * as a single sum in f32, the mean of a million equal elements would be wrong by a percent.
     */
    default void weighted(Taps taps, long step, long y, long yStep, int pixels, int columns) {
        int few = Math.max(FEW, (int) Math.sqrt(taps.count));
        weighted(taps, 0, Math.min(few, taps.count), step, y, yStep, pixels, columns);
        if (taps.count <= few) {
            return;
        }
        long row = 4L * columns;
        Block block = HostAllocator.shared().allocate(pixels * row);
        try {
            long sums = block.address();
            for (int begin = few; begin < taps.count; begin += few) {
                weighted(taps, begin, Math.min(begin + few, taps.count), step, sums, row, pixels, columns);
                for (int p = 0; p < pixels; p++) {
                    RowLoops.FASTEST.matrix().columnSums(sums + p * row, 0, 1, columns, y + p * yStep);
                }
            }
        } finally {
            HostAllocator.shared().free(block);
        }
    }

    /**
     * Writes to pixels {@code yStep} bytes apart the sum of those elements of the taps whose index (i32,
     * {@code toIndex} bytes after the element) equals the pixel's own: {@code place} for the first pixel,
     * {@code placeStep} more for each next one. Returns the number of these elements.
     */
    long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns);
}
