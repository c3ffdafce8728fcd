package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Mode;
import dev.starling.nn.Precision;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.TensorException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Means over examples.
 *
 * @param loss the mean loss; of held-out data the mean of the losses of its batches, each weighted by its
 *     {@link Loss#divisor}
 * @param metrics the means of metrics by name
 * @param text the means of metrics by name, formatted by {@link Metric#format}
 * @param examples number of examples
 */
public record Scores(double loss, Map<String, Double> metrics, Map<String, String> text, long examples) {
    static Scores of(List<Metric> metrics, double loss, double[] means, long examples) {
        Map<String, Double> values = new LinkedHashMap<>();
        Map<String, String> text = new LinkedHashMap<>();
        for (int i = 0; i < means.length; i++) {
            values.put(metrics.get(i).name(), means[i]);
            text.put(metrics.get(i).name(), metrics.get(i).format(means[i]));
        }
        return new Scores(loss, Collections.unmodifiableMap(values), Collections.unmodifiableMap(text), examples);
    }

    /**
     * Evaluates a model on epoch 0 of some data, without training it, on the device of its parameters and in the
     * {@link Precision#current} precision.
     *
     * @throws TensorException if there is no example, among other reasons
     */
    public static Scores evaluate(Layer model, Loss loss, DataLoader data, Metric... metrics) {
        return evaluate(Task.of(model, loss, List.of(metrics)), data);
    }

    /** As {@link #evaluate(Layer, Loss, DataLoader, Metric...)}, of a model with several inputs or results. */
    public static Scores evaluate(Model<?, ?> model, Objective objective, DataLoader data, Metric... metrics) {
        return evaluate(Task.of(model, objective, List.of(metrics)), data);
    }

    private static Scores evaluate(Task task, DataLoader data) {
        task.require(data);
        Averages averages = task.averages();
        return averages.evaluated(sums(task, data, averages));
    }

    /** Returns the sums over this process's share of the data. */
    static double[] sums(Task task, DataLoader data, Averages averages) {
        Device device = task.model().device();
        Device before = data.device();
        data.device(device);
        try {
            Mode.inference(() -> Recorder.with(Recorder.NONE, () -> {
                for (Batch batch : data.epoch(0)) {
                    if (batch.size() > 0) {
                        try (Scope scope = Scope.open("evaluation")) {
                            BatchResult result = task.forward(Precision.current(), Task.to(device, task.fields(batch)));
                            averages.add(result.loss().item(), result, true);
                        }
                    }
                }
                return null;
            }));
        } finally {
            data.device(before);
        }
        averages.endStep(true);
        return averages.sums();
    }

    /** Returns the mean of a metric. */
    public double metric(String name) {
        Double value = metrics.get(name);
        if (value == null) {
            throw TensorException.argument("scores", "there is no metric " + name, "use one of "
                    + metrics.keySet());
        }
        return value;
    }

    /** Returns for example {@code loss 0.1234  accuracy 97.10 %}. */
    @Override
    public String toString() {
        return String.join("  ", parts());
    }

    /** Returns the loss and each metric as texts. */
    List<String> parts() {
        return Stream.concat(Stream.of("loss " + ProgressLine.number(loss)),
                text.entrySet().stream().map(e -> e.getKey() + " " + e.getValue())).toList();
    }
}
