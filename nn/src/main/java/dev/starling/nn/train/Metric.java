package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Locale;
import java.util.function.ToDoubleBiFunction;

/** A value per example whose mean a run reports. Stateless. */
public interface Metric {
    /** Returns the name, for example {@code accuracy}. */
    String name();

    /** Returns the sum over the examples of a batch. */
    double sumOver(Tensor result, Tensor target);

    /** Formats a mean. */
    default String format(double mean) {
        return String.format(Locale.ROOT, "%.4f", mean);
    }

    /**
     * Creates a metric.
     *
     * @param name its name in reports
     * @param sum the sum over the examples of a batch, as a function of result and target
     */
    static Metric of(String name, ToDoubleBiFunction<Tensor, Tensor> sum) {
        return new NamedMetric(name, sum, false);
    }

    /**
     * The fraction of correct answers, where the largest of {@code logits [N, C]} is at the class {@code target [N]}.
     */
    static Metric accuracy() {
        return share("accuracy", (logits, target) -> logits.argmax(1).eq(target).sum().item());
    }

    /** The fraction of targets {@code [N]} that are among the {@code k} largest of {@code logits [N, C]}. */
    static Metric topAccuracy(int k) {
        return share("top-" + k, (logits, target) ->
                logits.topk(k, 1, true).indices().eq(target.unsqueeze(1)).sum().item());
    }

    /**
     * The fraction of correct answers, where a positive logit means 1 and any other 0. Logits and targets (0 or 1) have
     * one shape, {@code [N, 1]} or {@code [N]}.
     */
    static Metric binaryAccuracy() {
        return share("accuracy", (logits, target) -> logits.gt(0).eq(target.gt(0.5)).sum().item());
    }

    /** The mean absolute difference between results and targets of one shape {@code [N, ..]}. */
    static Metric meanAbsoluteError() {
        return new NamedMetric("mean absolute error", (result, target) ->
                result.sub(target).abs().sum().item() * result.size(0) / Math.max(1, result.count()), false);
    }

    private static Metric share(String name, ToDoubleBiFunction<Tensor, Tensor> sum) {
        return new NamedMetric(name, sum, true);
    }
}
