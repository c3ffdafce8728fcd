package dev.starling.nn.train;

import org.jspecify.annotations.Nullable;

/**
 * The number by which epochs are compared: of the held-out data, or of the training data if nothing is held out.
 *
 * @param metric name of a metric; {@code null} for the loss
 * @param growing whether a larger number is better
 */
record Measure(@Nullable String metric, boolean growing) {
    static final Measure LOSS = new Measure(null, false);

    /** Returns the number of an epoch. */
    double of(EpochReport report) {
        Scores scores = report.heldOut().orElse(report.training());
        return metric == null ? scores.loss() : scores.metric(metric);
    }

    /**
     * Returns whether a number is better than the best so far by more than a margin. NaN, which stands for no number,
     * is worse than any other.
     */
    boolean improves(double now, double best, double margin) {
        return Double.isNaN(best) ? !Double.isNaN(now) : growing ? now > best + margin : now < best - margin;
    }

    @Override
    public String toString() {
        return metric == null ? "loss" : metric;
    }
}
