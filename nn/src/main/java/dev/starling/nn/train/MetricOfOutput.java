package dev.starling.nn.train;

import dev.starling.tensor.Tensor;

/**
 * A metric of one result of a model with several.
 *
 * @param output name of the result
 * @param metric what is measured
 */
record MetricOfOutput(String output, Metric metric) implements Metric {
    @Override
    public String name() {
        return output + " " + metric.name();
    }

    @Override
    public double sumOver(Tensor result, Tensor target) {
        return metric.sumOver(result, target);
    }

    @Override
    public String format(double mean) {
        return metric.format(mean);
    }
}
