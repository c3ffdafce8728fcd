package dev.starling.nn.optim;

import dev.starling.tensor.TensorException;
import java.util.Arrays;

/**
 * The learning rate as a function of the number of steps. It depends on nothing else, so resuming needs no further
 * state.
 */
@FunctionalInterface
public interface Schedule {
    /** Returns the rate of the step that follows {@code steps} steps. */
    double rate(long steps);

    /** A constant rate. */
    static Schedule constant(double rate) {
        requireRates(rate);
        return new NamedSchedule("constant " + rate, steps -> rate);
    }

    /** Multiplies the rate by {@code factor} after every {@code every} steps. */
    static Schedule decay(double rate, long every, double factor) {
        requireRates(rate, factor);
        require(every > 0, "every must be > 0, got " + every);
        return new NamedSchedule("decay of " + rate + " by " + factor + " every " + every + " steps",
                steps -> rate * StrictMath.pow(factor, steps / every));
    }

    /**
     * Half a cosine from {@code rate} to {@code last} over {@code total} steps, then {@code last}. (PyTorch's
     * {@code CosineAnnealingLR} rises again after {@code T_max} steps; that would undo a training that runs longer than
     * planned.) (Loshchilov and Hutter, 2016)
     */
    static Schedule cosine(double rate, double last, long total) {
        requireRates(rate, last);
        require(total > 0, "total must be > 0, got " + total);
        return new NamedSchedule("cosine from " + rate + " to " + last + " over " + total + " steps",
                steps -> half(rate, last, Math.min(1, (double) steps / total)));
    }

    /**
     * Half a cosine from {@code max/25} up to {@code max}, and another down to {@code max/250,000}, where it stays.
     * (Smith and Topin, 2017)
     *
     * @param max the highest rate
     * @param total number of steps; the rate rises during the first 30 % of them, as PyTorch's {@code OneCycleLR}
     */
    static Schedule oneCycle(double max, long total) {
        requireRates(max);
        require(total > 1, "total must be > 1, got " + total);
        // Number of the step with the highest rate, from 0.
        double peak = 0.3 * total - 1;
        return new NamedSchedule("one cycle up to " + max + " over " + total + " steps",
                steps -> steps <= peak ? half(max / 25, max, steps / peak)
                        : half(max, max / 250_000, Math.min(1, (steps - peak) / (total - 1 - peak))));
    }

    /**
     * Half a cosine from {@code rate} to {@code last} over {@code period} steps, then again from {@code rate}, over a
     * period that is {@code growth} times as long each time. (Loshchilov and Hutter, 2016)
     */
    static Schedule cosineRestarts(double rate, double last, long period, int growth) {
        requireRates(rate, last);
        require(period > 0 && growth > 0, "period and growth must be > 0, got " + period + " and " + growth);
        return new NamedSchedule("cosine from " + rate + " to " + last + " over " + period
                + " steps, restarted with periods " + growth + " times as long", steps -> {
                    long start = 0;
                    long length = period;
                    while (steps - start >= length) {
                        start += length;
                        length = length > Long.MAX_VALUE / growth - start ? Long.MAX_VALUE - start : length * growth;
                    }
                    return half(rate, last, (double) (steps - start) / length);
                });
    }

    /** From {@code rate} to {@code last} over {@code total} steps, as {@code (1 - steps/total)} to a power. */
    static Schedule polynomial(double rate, double last, long total, double power) {
        requireRates(rate, last);
        require(total > 0 && power > 0 && power < Double.POSITIVE_INFINITY,
                "total and power must be > 0 and finite, got " + total + " and " + power);
        return new NamedSchedule("polynomial of degree " + power + " from " + rate + " to " + last + " over " + total
                + " steps", steps -> last + (rate - last) * StrictMath.pow(1 - Math.min(1, (double) steps / total),
                        power));
    }

    /** Multiplies the rate by {@code factor} after each of the given numbers of steps, which must increase. */
    static Schedule multiStep(double rate, double factor, long... milestones) {
        requireRates(rate, factor);
        long[] after = milestones.clone();
        for (int i = 1; i < after.length; i++) {
            require(after[i] > after[i - 1], "milestones must increase, got " + Arrays.toString(after));
        }
        return new NamedSchedule("decay of " + rate + " by " + factor + " after steps " + Arrays.toString(after),
                steps -> {
                    int passed = Arrays.binarySearch(after, steps);
                    return rate * StrictMath.pow(factor, passed >= 0 ? passed + 1 : -passed - 1);
                });
    }

    /**
     * This schedule, multiplied by a factor that rises linearly over the first {@code length} steps, from
     * {@code 1/length} in the first of them to 1 in the last.
     */
    default Schedule warmUp(long length) {
        require(length > 0, "the warm-up must take > 0 steps, got " + length);
        return new NamedSchedule(this + ", warm-up over " + length + " steps",
                steps -> steps >= length ? rate(steps) : rate(steps) * (steps + 1) / length);
    }

    private static double half(double from, double to, double progress) {
        return to + (from - to) * (1 + StrictMath.cos(Math.PI * progress)) / 2;
    }

    private static void requireRates(double... rates) {
        for (double rate : rates) {
            require(rate >= 0 && rate < Double.POSITIVE_INFINITY, "rates and factors must be >= 0 and finite, got "
                    + rate);
        }
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("schedule", relation, "change this argument");
        }
    }
}
