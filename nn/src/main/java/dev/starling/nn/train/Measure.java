package dev.starling.nn.train;

import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The number by which epochs are compared: of the held-out data, or of the training data if nothing is held out.
 *
 * @param metric name of a metric; {@code null} for the loss
 * @param growing whether a larger number is better
 */
record Measure(@Nullable String metric, boolean growing) {
    static final Measure LOSS = new Measure(null, false);

    /** Requires the metric before the first step of a run, not after its first epoch. */
    void require(Progress progress) {
        List<String> names = progress.averages.metrics.stream().map(Metric::name).toList();
        if (metric != null && !names.contains(metric)) {
            throw TensorException.argument("measure", "epochs are to be compared by the metric " + metric
                    + ", but the run has the metrics " + names, "correct the name, or add the metric to the trainer "
                    + "with metrics(..)");
        }
    }

    /**
     * Returns the number of an epoch.
     *
     * @param best so far; NaN before the first epoch
     * @throws TensorException if a held-out loss is NaN and no epoch before has had a number: none would ever be better
     */
    double of(EpochReport report, double best) {
        Scores scores = report.heldOut().orElse(report.training());
        double value = metric == null ? scores.loss() : scores.metric(metric);
        if (metric == null && Double.isNaN(value) && Double.isNaN(best) && report.heldOut().isPresent()) {
            throw TensorException.argument("measure", "the held-out loss of epoch " + report.epoch() + " is NaN, so "
                    + "epochs cannot be compared by it", "repair the held-out data: inputs or targets that are NaN, or "
                    + "no target that counts; lower the learning rate; or compare by a metric, with growing(..) or "
                    + "shrinking(..)");
        }
        return value;
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
