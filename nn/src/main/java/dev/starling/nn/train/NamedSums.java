package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Locale;
import java.util.function.ToDoubleFunction;

/**
 * A metric of sums that is given by functions.
 *
 * @param name name of the metric
 * @param size number of sums
 * @param contribution adds what a batch contributes
 * @param function of the sums
 * @param share whether the value is a fraction and printed in percent
 */
record NamedSums(String name, int size, Contribution contribution, ToDoubleFunction<double[]> function, boolean share)
        implements MetricOfSums {
    /** Adds what a batch contributes to sums. */
    interface Contribution {
        void addTo(double[] sums, Tensor result, Tensor target);
    }

    @Override
    public void addTo(double[] sums, Tensor result, Tensor target) {
        contribution.addTo(sums, result, target);
    }

    @Override
    public double value(double[] sums) {
        return function.applyAsDouble(sums);
    }

    @Override
    public String format(double mean) {
        return share ? String.format(Locale.ROOT, "%.2f %%", 100 * mean) : MetricOfSums.super.format(mean);
    }
}
