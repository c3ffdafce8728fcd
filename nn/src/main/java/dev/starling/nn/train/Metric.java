package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Locale;

/** A number per example that a run reports the mean of. Holds no state. */
public interface Metric {
    /** Returns the name, for example {@code accuracy}. */
    String name();

    /** Returns the sum over the examples of a batch. */
    double sumOver(Tensor result, Tensor target);

    /** Returns a mean as text. */
    default String format(double mean) {
        return String.format(Locale.ROOT, "%.4f", mean);
    }

    /** The share of right answers: the greatest of {@code logits [N, C]} is at the class {@code target [N]}. */
    static Metric accuracy() {
        return share("accuracy", (logits, target) -> logits.argmax(1).eq(target).sum().item());
    }

    /** The share of targets {@code [N]} among the {@code k} greatest of {@code logits [N, C]}. */
    static Metric topAccuracy(int k) {
        return share("top-" + k, (logits, target) ->
                logits.topk(k, 1, true).indices().eq(target.unsqueeze(1)).sum().item());
    }

    /** The share of right answers where a positive logit says 1; shapes are alike, {@code [N, 1]} or {@code [N]}. */
    static Metric binaryAccuracy() {
        return share("accuracy", (logits, target) -> logits.gt(0).eq(target.gt(0.5)).sum().item());
    }

    /** The mean distance between results and targets of one shape {@code [N, ..]}. */
    static Metric meanAbsoluteError() {
        return new Named("mean absolute error", (result, target) ->
                result.sub(target).abs().sum().item() * result.size(0) / Math.max(1, result.count()), false);
    }

    private static Metric share(String name, Sum sum) {
        return new Named(name, sum, true);
    }

    /** Sums over a batch. */
    @FunctionalInterface
    interface Sum {
        /** Returns the sum over the examples of a batch. */
        double of(Tensor result, Tensor target);
    }

    /**
     * A metric made of its parts.
     *
     * @param name of the metric
     * @param sum over a batch
     * @param share whether it is printed in percent
     */
    record Named(String name, Sum sum, boolean share) implements Metric {
        @Override
        public double sumOver(Tensor result, Tensor target) {
            return sum.of(result, target);
        }

        @Override
        public String format(double mean) {
            return share ? String.format(Locale.ROOT, "%.2f %%", 100 * mean) : Metric.super.format(mean);
        }
    }
}
