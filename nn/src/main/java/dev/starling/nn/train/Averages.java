package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Running means of loss and metrics, weighted by the size of batches. */
final class Averages {
    final List<Metric> metrics;
    private final double[] sums;
    private double lossSum;
    private long examples;
    /** Of the last batch. */
    double lastLoss;
    final double[] last;

    Averages(List<Metric> metrics) {
        this.metrics = metrics;
        sums = new double[metrics.size()];
        last = new double[metrics.size()];
    }

    void reset() {
        Arrays.fill(sums, 0);
        lossSum = 0;
        examples = 0;
    }

    void add(double loss, Tensor result, Tensor target, long n) {
        lastLoss = loss;
        lossSum += loss * n;
        examples += n;
        for (int i = 0; i < sums.length; i++) {
            double sum = metrics.get(i).sumOver(result, target);
            last[i] = sum / n;
            sums[i] += sum;
        }
    }

    double loss() {
        return lossSum / examples;
    }

    double mean(int metric) {
        return sums[metric] / examples;
    }

    Scores scores() {
        double[] means = new double[sums.length];
        for (int i = 0; i < means.length; i++) {
            means[i] = mean(i);
        }
        return Scores.of(metrics, loss(), means, examples);
    }

    void save(Map<String, String> notes) {
        notes.put("sum.examples", Long.toString(examples));
        notes.put("sum.loss", Double.toString(lossSum));
        for (int i = 0; i < sums.length; i++) {
            notes.put("sum." + metrics.get(i).name(), Double.toString(sums[i]));
        }
    }

    /** Takes sums from a checkpoint; a metric that was not measured then starts at 0. */
    void restore(Map<String, String> notes) {
        examples = Long.parseLong(notes.get("sum.examples"));
        lossSum = Double.parseDouble(notes.get("sum.loss"));
        for (int i = 0; i < sums.length; i++) {
            sums[i] = Double.parseDouble(notes.getOrDefault("sum." + metrics.get(i).name(), "0"));
        }
    }
}
