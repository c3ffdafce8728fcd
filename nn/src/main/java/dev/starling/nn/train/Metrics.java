package dev.starling.nn.train;

import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.ToDoubleFunction;

/**
 * Metrics that need more than one sum over the examples. Each is computed from sums over all examples of the epoch and
 * all ranks, not as the mean of values of batches. Each is NaN if a result or a target is NaN.
 */
public final class Metrics {
    /** Number of intervals of logits of one sign in which the curves of {@link #rocAuc} and {@link #prAuc} count. */
    private static final int HALF = 4096;
    private static final int BINS = 2 * HALF;
    /** The logarithm of 1 + the size of logits that all fall into the last interval. */
    private static final double RANGE = StrictMath.log1p(1 << 14);
    /** The share of the squares of targets that rounding of their sums may amount to. */
    private static final double ROUNDING = 0x1p-43;

    private Metrics() {
    }

    // ---- two classes ----

    /**
     * The share of examples with a positive logit whose target is 1. Logits and targets (0 or 1) have one shape.
     *
     * <p>Undefined (NaN) if no logit is positive.
     */
    public static MetricOfSums precision() {
        return binary("precision", s -> s[0] / (s[0] + s[1]));
    }

    /** The share of examples with target 1 whose logit is positive; see {@link #precision()}. */
    public static MetricOfSums recall() {
        return binary("recall", s -> s[0] / (s[0] + s[2]));
    }

    /** The harmonic mean of precision and recall; see {@link #precision()}. */
    public static MetricOfSums f1() {
        return binary("F1", s -> 2 * s[0] / (2 * s[0] + s[1] + s[2]));
    }

    /** Returns a metric of the numbers of true positives, false positives and false negatives. */
    private static MetricOfSums binary(String name, ToDoubleFunction<double[]> value) {
        return new NamedSums(name, 3, (sums, logits, target) -> {
            requireBinary(name, logits, target);
            Tensor predicted = logits.gt(0);
            Tensor actual = target.gt(0.5);
            double both = predicted.and(actual).sum().item();
            sums[0] += hasNan(logits) || hasNan(target) ? Double.NaN : both;
            sums[1] += predicted.sum().item() - both;
            sums[2] += actual.sum().item() - both;
        }, value, true);
    }

    /**
     * The area under the curve of true positive rate over false positive rate, for all thresholds: the probability that
     * a random example with target 1 has a larger logit than one with target 0. Logits and targets (0 or 1) have one
     * shape. The curve counts in 8,192 intervals of the logit, 0.0024 wide at 0 and wider in proportion to
     * {@code 1 + |logit|}. Within an interval order is unknown and counts half: the error is at most half the
     * probability that two such examples fall into one interval.
     */
    public static MetricOfSums rocAuc() {
        return new NamedSums("ROC AUC", 2 * BINS, (sums, logits, target) -> count("ROC AUC", sums, logits, target),
                Metrics::areaUnderRoc, false);
    }

    /**
     * The area under the curve of precision over recall as a sum of steps (average precision). It counts as
     * {@link #rocAuc} does.
     */
    public static MetricOfSums prAuc() {
        return new NamedSums("PR AUC", 2 * BINS, (sums, logits, target) -> count("PR AUC", sums, logits, target),
                Metrics::averagePrecision, false);
    }

    private static void count(String name, double[] sums, Tensor logits, Tensor target) {
        requireBinary(name, logits, target);
        float[] x = logits.to(DType.F32).toFloats();
        float[] y = target.to(DType.F32).toFloats();
        for (int i = 0; i < x.length; i++) {
            sums[2 * interval(x[i]) + (y[i] > 0.5 ? 1 : 0)] += Float.isNaN(x[i]) || Float.isNaN(y[i]) ? Double.NaN
                    : 1;
        }
    }

    /** Returns the interval of a logit, from 0 for the smallest ones. */
    private static int interval(double logit) {
        int distance = (int) Math.min(HALF - 1, StrictMath.log1p(Math.abs(logit)) / RANGE * HALF);
        return logit < 0 ? HALF - 1 - distance : HALF + distance;
    }

    private static double areaUnderRoc(double[] sums) {
        double negatives = 0;
        double positives = 0;
        double ordered = 0;
        for (int bin = 0; bin < BINS; bin++) {
            ordered += sums[2 * bin + 1] * (negatives + sums[2 * bin] / 2);
            negatives += sums[2 * bin];
            positives += sums[2 * bin + 1];
        }
        return ordered / (negatives * positives);
    }

    private static double averagePrecision(double[] sums) {
        double area = 0;
        double found = 0;
        double predicted = 0;
        for (int bin = BINS - 1; bin >= 0; bin--) {
            found += sums[2 * bin + 1];
            predicted += sums[2 * bin] + sums[2 * bin + 1];
            area += predicted == 0 ? 0 : sums[2 * bin + 1] * found / predicted;
        }
        return area / found;
    }

    // ---- many classes ----

    /**
     * The share of answers whose largest logit is at the class that the target names, without the positions whose
     * target is {@code ignored}, for example the padding of sequences. Logits and targets have the shapes of
     * {@link Loss#classAxis}. Each position counts alike; with {@link Metric#accuracy()} each example does.
     */
    public static MetricOfSums accuracyIgnoring(long ignored) {
        return new NamedSums("accuracy", 2, (sums, logits, target) -> {
            Tensor counted = target.ne(ignored);
            sums[0] += logits.argmax(Loss.classAxis(logits, target)).eq(target).and(counted).sum().item();
            sums[1] += hasNan(logits) ? Double.NaN : counted.sum().item();
        }, s -> s[0] / s[1], true);
    }

    /** The mean over classes of the precision of each; classes that neither occur nor are predicted do not count. */
    public static MetricOfSums precision(int classes) {
        return confusion("precision", classes, ConfusionMatrix::meanPrecision);
    }

    /** The mean over classes of the recall of each; classes that neither occur nor are predicted do not count. */
    public static MetricOfSums recall(int classes) {
        return confusion("recall", classes, ConfusionMatrix::meanRecall);
    }

    /** The mean over classes of the F1 of each; classes that neither occur nor are predicted do not count. */
    public static MetricOfSums f1(int classes) {
        return confusion("F1", classes, ConfusionMatrix::meanF1);
    }

    /**
     * The mean over classes of the intersection of predicted and actual positions over their union, for segmentation.
     * Logits and targets have the shapes of {@link Loss#classAxis}. Positions whose target is negative do not count,
     * nor those of 255 if there are at most 255 classes.
     */
    public static MetricOfSums meanIou(int classes) {
        return confusion("mean IoU", classes, ConfusionMatrix::meanIou);
    }

    private static MetricOfSums confusion(String name, int classes, ToDoubleFunction<ConfusionMatrix> value) {
        return new NamedSums(name, ConfusionMatrix.requireClasses(classes) * classes,
                (sums, logits, target) -> ConfusionMatrix.count(sums, classes, logits, target),
                sums -> value.applyAsDouble(ConfusionMatrix.of(classes, sums)), true);
    }

    // ---- numbers ----

    /** The root of the mean squared error of results and targets of one shape. */
    public static MetricOfSums rootMeanSquaredError() {
        return new NamedSums("RMSE", 2, (sums, result, target) -> {
            requireSame("RMSE", result, target);
            sums[0] += wide(result.sub(target)).square().sum().item();
            sums[1] += result.count();
        }, s -> Math.sqrt(s[0] / s[1]), false);
    }

    /**
     * The coefficient of determination of results and targets of one shape: 1 - (squared error)/(squared deviation of
     * the targets from their mean), over all elements.
     *
     * <p>Undefined (NaN) if all targets are equal, or deviate from their mean by less than about 3e-7 times its size,
     * which rounding hides.
     */
    public static MetricOfSums rSquared() {
        return new NamedSums("R²", 4, (sums, result, target) -> {
            requireSame("R²", result, target);
            Tensor y = wide(target);
            sums[0] += wide(result.sub(target)).square().sum().item();
            sums[1] += y.sum().item();
            sums[2] += y.square().sum().item();
            sums[3] += target.count();
        }, Metrics::determination, false);
    }

    private static double determination(double[] sums) {
        double deviation = sums[2] - sums[1] * sums[1] / sums[3];
        return deviation > sums[2] * ROUNDING ? 1 - sums[0] / deviation : Double.NaN;
    }

    /**
     * The exponential of the mean cross-entropy of the positions. Logits and targets have the shapes of
     * {@link Loss#classAxis}.
     */
    public static MetricOfSums perplexity() {
        return perplexity(Losses.NONE_IGNORED);
    }

    /** As {@link #perplexity()}, without the positions whose target is {@code ignored}. */
    public static MetricOfSums perplexity(long ignored) {
        return new NamedSums("perplexity", 2, (sums, logits, target) -> {
            int axis = Loss.classAxis(logits, target);
            Tensor rows = logits.movedim(axis, -1).reshape(-1, logits.size(axis));
            sums[0] += Losses.crossEntropy(rows, target.reshape(-1), Losses.Reduce.SUM, 0, ignored).item();
            sums[1] += target.ne(ignored).sum().item();
        }, s -> Math.exp(s[0] / s[1]), false);
    }

    /** Returns whether an element is NaN, which comparisons and the largest element would hide. */
    static boolean hasNan(Tensor x) {
        return x.dtype().isFloating() && x.isNan().sum().item() > 0;
    }

    /** Requires targets between 0 and 1, or -1 and 1 as for margin losses, of the shape of the logits. */
    static void requireBinary(String metric, Tensor logits, Tensor target) {
        requireSame(metric, logits, target);
        if (target.lt(-1).or(target.gt(1)).sum().item() > 0) {
            throw new TensorException(TensorException.Problem.ARGUMENT, metric, List.of(target.spec()), "targets must "
                    + "be 0 or 1, -1 or 1, or a probability", "subtract 1 from labels 1 and 2");
        }
    }

    private static Tensor wide(Tensor x) {
        return x.to(DType.F64);
    }

    private static void requireSame(String metric, Tensor result, Tensor target) {
        if (!result.shape().equals(target.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, metric, List.of(result.spec(), target.spec()),
                    "result and target must have the same shape", "reshape one of them, for example with squeeze(-1)");
        }
    }
}
