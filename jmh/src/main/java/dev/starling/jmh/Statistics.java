package dev.starling.jmh;

import java.util.Arrays;

/** Statistics of repeated measurements. */
public final class Statistics {
    private Statistics() {
    }

    /** Returns the median, of an even number of values the mean of the two in the middle. */
    public static double median(double... values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
