package dev.starling.jmh;

import java.util.Arrays;

/** Statistics of repeated measurements. */
public final class Statistics {
    /** The least number of runs of which {@link #settled} finds the first fast one. */
    static final int MIN_RUNS = 18;
    private static final int WINDOW = MIN_RUNS / 2;

    private Statistics() {
    }

    /**
     * Returns the first run from which the median of {@value #WINDOW} runs has 95 % of the speed of the second half or
     * more.
     *
     * @param times of at least {@link #MIN_RUNS} runs
     */
    static int settled(double... times) {
        double steady = median(Arrays.copyOfRange(times, times.length / 2, times.length));
        int first = 0;
        while (0.95 * median(Arrays.copyOfRange(times, first, first + WINDOW)) > steady) {
            first++;
        }
        return first;
    }

    /** Returns the median, of an even number of values the mean of the two in the middle. */
    public static double median(double... values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    /** Returns the geometric mean of positive values: that of ratios is the same whichever side is the divisor. */
    public static double geometricMean(double... values) {
        return Math.exp(Arrays.stream(values).map(Math::log).average().orElseThrow());
    }
}
