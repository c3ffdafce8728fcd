package dev.starling.nn.train;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Running means of loss and metrics, weighted by the number of examples; losses of held-out data by the number or
 * weight of the targets that count. The values of a step count once it is complete.
 */
final class Averages {
    final List<Metric> metrics;
    /** What is measured; {@code null} if no batch is added. */
    private final @Nullable Task task;
    /** Number of the first metrics that are losses of a batch, in their order. */
    private final int losses;
    /** By metric, which result of a batch it measures. */
    private final int[] measured;
    /** By metric, where its sums begin. */
    private final int[] starts;
    /**
     * Number of examples, sum of losses, what divides it, sums of metrics: over the epoch, and over the current step.
     */
    private final double[] sums;
    private final double[] step;
    /** Means of the last step. */
    double lastLoss;
    final double[] last;

    /** Makes means of metrics of the only result of a model. */
    Averages(List<Metric> metrics) {
        this(null, metrics, 0, new int[metrics.size()]);
    }

    Averages(@Nullable Task task, List<Metric> metrics, int losses, int[] measured) {
        this.task = task;
        this.metrics = metrics;
        this.losses = losses;
        this.measured = measured;
        last = new double[metrics.size()];
        starts = new int[last.length];
        int end = 3;
        for (int i = 0; i < last.length; i++) {
            starts[i] = end;
            end += size(i);
        }
        sums = new double[end];
        step = new double[end];
    }

    private int size(int metric) {
        return metric < losses ? 2 : inner(metric) instanceof MetricOfSums several ? several.size() : 1;
    }

    /** Returns a metric as a function of the result that it measures. */
    private Metric inner(int metric) {
        return metrics.get(metric) instanceof MetricOfOutput of ? of.metric() : metrics.get(metric);
    }

    /** Returns the value of a metric for the given sums. */
    private double value(int metric, double[] of) {
        return inner(metric) instanceof MetricOfSums several
                ? several.value(Arrays.copyOfRange(of, starts[metric], starts[metric] + several.size()))
                : of[starts[metric]] / (metric < losses ? of[starts[metric] + 1] : of[0]);
    }

    /** Returns the mean loss for the given sums. */
    private double loss(double[] of) {
        double sum = 0;
        for (int i = 0; i < losses; i++) {
            sum += Objects.requireNonNull(task).weight(i) * value(i, of);
        }
        return losses == 0 ? of[1] / of[2] : sum;
    }

    void reset() {
        Arrays.fill(sums, 0);
    }

    /** Adds a batch to the current step. */
    void add(double loss, BatchResult batch) {
        add(loss, batch, false);
    }

    /** Adds a batch to the current step, whose losses weigh as much as their targets do if it is held out. */
    void add(double loss, BatchResult batch, boolean heldOut) {
        step[0] += batch.rows();
        if (losses == 0) {
            addLoss(1, 0, loss, batch, heldOut);
        }
        for (int i = 0; i < losses; i++) {
            addLoss(starts[i], i, batch.losses()[i].item(), batch, heldOut);
        }
        for (int i = losses; i < last.length; i++) {
            Tensor result = batch.results()[measured[i]];
            Tensor target = batch.targets()[measured[i]];
            boolean narrow = result.dtype().isFloating() && result.dtype().bytes() == 2;
            add(i, narrow ? result.to(DType.F32) : result, target);
        }
    }

    private void addLoss(int start, int loss, double value, BatchResult batch, boolean heldOut) {
        Task of = Objects.requireNonNull(task);
        double weight = heldOut ? of.divisor(loss, batch) : batch.rows();
        // No target of the batch counts: its mean may be NaN.
        step[start] += weight == 0 ? 0 : of.checked(loss, value) * weight;
        step[start + 1] += weight;
    }

    private void add(int metric, Tensor result, Tensor target) {
        if (inner(metric) instanceof MetricOfSums several) {
            double[] own = new double[several.size()];
            several.addTo(own, result, target);
            for (int k = 0; k < own.length; k++) {
                step[starts[metric] + k] += own[k];
            }
        } else {
            step[starts[metric]] += metrics.get(metric).sumOver(result, target);
        }
    }

    /** Adds the current step to the epoch if it counts, and discards it otherwise. */
    void endStep(boolean counts) {
        if (counts && step[0] > 0) {
            lastLoss = loss(step);
            for (int i = 0; i < last.length; i++) {
                last[i] = value(i, step);
            }
            for (int i = 0; i < sums.length; i++) {
                sums[i] += step[i];
            }
        }
        Arrays.fill(step, 0);
    }

    /**
     * Replaces the sums, and the means of the last step that follow them in the array, by those of a run in another
     * process.
     */
    void copyFrom(double[] numbers, int at, double loss) {
        System.arraycopy(numbers, at, sums, 0, sums.length);
        System.arraycopy(numbers, at + sums.length, last, 0, last.length);
        lastLoss = loss;
    }

    double loss() {
        return loss(sums);
    }

    double mean(int metric) {
        return value(metric, sums);
    }

    /** Returns a copy of all sums, which ranks add up. */
    double[] sums() {
        return sums.clone();
    }

    /** Returns the sums of training, whose losses rows weigh, in the order of {@link #Averages(List)}. */
    double[] byRows() {
        if (losses == 0) {
            return sums();
        }
        double[] rows = new double[sums.length - losses];
        rows[0] = sums[0];
        rows[1] = sums[0] == 0 ? 0 : loss() * sums[0];
        rows[2] = sums[0];
        for (int i = 0; i < losses; i++) {
            rows[3 + i] = sums[starts[i]];
        }
        System.arraycopy(sums, 3 + 2 * losses, rows, 3 + losses, rows.length - 3 - losses);
        return rows;
    }

    /**
     * Returns the means over held-out examples for the given sums.
     *
     * @throws TensorException if there was no example
     */
    Scores evaluated(double[] total) {
        requireExamples(total[0]);
        return scores(total);
    }

    static void requireExamples(double count) {
        if (count == 0) {
            throw TensorException.argument("evaluation", "there is no example to evaluate",
                    "check the data set of the held-out data, or leave out dropLast() of its loader");
        }
    }

    /** Returns the means for the given sums. */
    Scores scores(double[] total) {
        double[] means = new double[last.length];
        for (int i = 0; i < means.length; i++) {
            means[i] = value(i, total);
        }
        return Scores.of(metrics, loss(total), means, (long) total[0]);
    }

    /** Adds sums to the notes of a checkpoint, by the positions of metrics: a metric may change its name. */
    void save(Map<String, String> notes, double[] total) {
        if (total[0] == 0) {
            // An epoch begins.
            return;
        }
        notes.put("sum.examples", Double.toString(total[0]));
        notes.put("sum.loss", Double.toString(total[1]));
        notes.put("sum.weight", Double.toString(total[2]));
        for (int i = 0; i < last.length; i++) {
            notes.put("sum." + i, Arrays.stream(total, starts[i], starts[i] + size(i)).mapToObj(Double::toString)
                    .collect(Collectors.joining(" ")));
        }
    }

    /**
     * Returns what replaces the sums by those of a checkpoint. Those of a metric that the checkpoint does not contain
     * start at 0: its mean over this epoch counts earlier examples as 0.
     *
     * @throws NumberFormatException if the notes are not those of {@link #save}
     */
    Runnable restoring(Map<String, String> notes) {
        double[] saved = new double[sums.length];
        saved[0] = Double.parseDouble(notes.getOrDefault("sum.examples", "0"));
        saved[1] = Double.parseDouble(notes.getOrDefault("sum.loss", "0"));
        saved[2] = Double.parseDouble(notes.getOrDefault("sum.weight", notes.getOrDefault("sum.examples", "0")));
        for (int i = 0; i < last.length; i++) {
            String[] numbers = notes.getOrDefault("sum." + i, "0").split(" ");
            if (i < losses && numbers.length == 1 && notes.containsKey("sum." + i)) {
                // A former version saved only the sum of a loss, which rows weighed.
                saved[starts[i]] = Double.parseDouble(numbers[0]);
                saved[starts[i] + 1] = saved[0];
                continue;
            }
            for (int k = 0; k < size(i); k++) {
                saved[starts[i] + k] = numbers.length == size(i) ? Double.parseDouble(numbers[k]) : 0;
            }
        }
        return () -> System.arraycopy(saved, 0, sums, 0, sums.length);
    }
}
