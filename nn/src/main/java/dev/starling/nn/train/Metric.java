package dev.starling.nn.train;

import dev.starling.nn.loss.Loss;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleBiFunction;

/**
 * A value per example whose mean a run reports. Stateless. Those that this interface creates are NaN if a result or a
 * target is NaN.
 */
public interface Metric {
    /** Returns the name, for example {@code accuracy}. */
    String name();

    /** Returns the sum over the examples of a batch. */
    double sumOver(Tensor result, Tensor target);

    /**
     * Returns this metric of one result of a {@link dev.starling.nn.Model}; the target is the field of the data of the
     * same name. The metric's name is preceded by that of the result.
     */
    default Metric on(String output) {
        return new MetricOfOutput(output, this);
    }

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
     * The fraction of correct answers, where the largest of the logits is at the class that the target names. Logits
     * and targets have the shapes of {@link Loss#classAxis}, or the target has a share of each class and names that of
     * the largest. Each position of an example, as a pixel or a token, is an answer.
     */
    static Metric accuracy() {
        return share("accuracy", (logits, target) -> {
            int axis = areShares(logits, target) ? 1 : Loss.classAxis(logits, target);
            return hits(logits, target, axis);
        });
    }

    /** As {@link #accuracy()}, with the classes in a given dimension of the logits; negative counts from the end. */
    static Metric accuracy(int axis) {
        return share("accuracy", (logits, target) -> hits(logits, target, axis));
    }

    /** The fraction of answers whose target is among the {@code k} largest of the logits; see {@link #accuracy()}. */
    static Metric topAccuracy(int k) {
        return share("top-" + k, (logits, target) -> {
            int axis = Loss.classAxis(logits, target);
            return perExample(logits.topk(k, axis, true).indices().eq(target.unsqueeze(axis)), target);
        });
    }

    /**
     * The fraction of correct answers, where a positive logit means 1 and any other 0. Logits and targets (0 or 1) have
     * one shape, {@code [N, ..]}, of which each element is an answer.
     */
    static Metric binaryAccuracy() {
        return share("accuracy", (logits, target) -> {
            Metrics.requireBinary("binary accuracy", logits, target);
            return perExample(logits.gt(0).eq(target.gt(0.5)), target);
        });
    }

    /** The mean absolute difference between results and targets of one shape {@code [N, ..]}. */
    static Metric meanAbsoluteError() {
        return new NamedMetric("mean absolute error", (result, target) -> {
            requireSame("mean absolute error", result, target);
            return perExample(result.sub(target).abs(), target);
        }, false);
    }

    private static boolean areShares(Tensor logits, Tensor target) {
        return target.dtype().isFloating() && target.shape().equals(logits.shape());
    }

    private static double hits(Tensor logits, Tensor target, int axis) {
        Tensor classes = areShares(logits, target) ? target.argmax(axis) : target;
        Shape expected = logits.shape().without(axis);
        if (!expected.equals(classes.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "accuracy", List.of(logits.spec(), target.spec()),
                    "with the classes in dimension " + axis + ", the targets must be " + expected,
                    "reshape the targets, for example with squeeze(-1), or name another dimension");
        }
        return perExample(logits.argmax(axis).eq(classes), classes);
    }

    /** Returns the sum over examples of the mean over the answers of an example, which are as many as targets. */
    private static double perExample(Tensor answers, Tensor target) {
        return answers.sum().item() * target.size(0) / Math.max(1, target.count());
    }

    private static void requireSame(String metric, Tensor result, Tensor target) {
        if (!result.shape().equals(target.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, metric, List.of(result.spec(), target.spec()),
                    "result and target must have the same shape", "reshape one of them, for example with squeeze(-1)");
        }
    }

    private static Metric share(String name, ToDoubleBiFunction<Tensor, Tensor> sum) {
        return new NamedMetric(name, (result, target) -> {
            double value = sum.applyAsDouble(result, target);
            return Metrics.hasNan(result) || Metrics.hasNan(target) ? Double.NaN : value;
        }, true);
    }
}
