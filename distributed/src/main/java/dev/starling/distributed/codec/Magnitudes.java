package dev.starling.distributed.codec;

import java.util.Arrays;

/**
 * Finds the magnitude of the k-th largest element without sorting: the bits of a float without its sign are ordered as
 * its magnitude is, and are determined from the highest on by three counts. Allocates nothing.
 */
final class Magnitudes {
    /** From this on a magnitude is that of infinity or NaN. */
    static final int INFINITE = 0x7f800000;

    private static final int[] WIDTHS = {11, 10, 10};

    private final int[] counts = new int[1 << WIDTHS[0]];
    private int remaining;

    /** Returns the magnitude of an element. */
    static int of(float value) {
        return Float.floatToRawIntBits(value) & Integer.MAX_VALUE;
    }

    /**
     * Returns the magnitude of the k-th largest element, and for k = 0 one that no element exceeds.
     *
     * @param k at most the number of elements
     */
    int largest(float[][] arrays, int k) {
        remaining = k;
        if (k == 0) {
            return Integer.MAX_VALUE;
        }
        int prefix = 0;
        int shift = 31;
        for (int width : WIDTHS) {
            shift -= width;
            count(arrays, prefix, shift, width);
            int bin = (1 << width) - 1;
            while (remaining > counts[bin]) {
                remaining -= counts[bin--];
            }
            prefix = prefix << width | bin;
        }
        return prefix;
    }

    /** Returns how many elements with the magnitude that {@link #largest} has returned are among the k largest. */
    int atThreshold() {
        return remaining;
    }

    /** Counts elements whose higher bits are {@code prefix} by their next {@code width} bits. */
    private void count(float[][] arrays, int prefix, int shift, int width) {
        Arrays.fill(counts, 0);
        int mask = (1 << width) - 1;
        for (float[] array : arrays) {
            for (float value : array) {
                int magnitude = of(value);
                if (magnitude >>> shift >>> width == prefix) {
                    counts[magnitude >>> shift & mask]++;
                }
            }
        }
    }
}
