package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Locale;
import java.util.function.ToDoubleBiFunction;

/**
 * A metric given by a function.
 *
 * @param name name of the metric
 * @param sum sum over a batch
 * @param share whether the mean is a fraction and printed in percent
 */
record NamedMetric(String name, ToDoubleBiFunction<Tensor, Tensor> sum, boolean share) implements Metric {
    @Override
    public double sumOver(Tensor result, Tensor target) {
        return sum.applyAsDouble(result, target);
    }

    @Override
    public String format(double mean) {
        return share ? String.format(Locale.ROOT, "%.2f %%", 100 * mean) : Metric.super.format(mean);
    }
}
