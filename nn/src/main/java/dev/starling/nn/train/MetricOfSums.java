package dev.starling.nn.train;

import dev.starling.tensor.Tensor;

/**
 * A metric that is a function of several sums over examples, as precision is of counts. Ranks and batches add up the
 * sums, and the function is applied to the total. Stateless.
 */
public interface MetricOfSums extends Metric {
    /** Returns the number of sums. */
    int size();

    /** Adds what a batch contributes to each sum. */
    void addTo(double[] sums, Tensor result, Tensor target);

    /** Returns the metric for sums over all examples; NaN if it is not defined for them. */
    double value(double[] sums);

    /** Returns the metric of a batch, multiplied by its rows. */
    @Override
    default double sumOver(Tensor result, Tensor target) {
        double[] sums = new double[size()];
        addTo(sums, result, target);
        return value(sums) * target.size(0);
    }
}
