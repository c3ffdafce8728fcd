package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Model;
import dev.starling.nn.Precision;
import dev.starling.nn.RecordType;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** How often each class was predicted for the examples of each class. */
public final class ConfusionMatrix {
    private static final int MAX_CLASSES = 10_000;

    private final int classes;
    /** By actual and predicted class. */
    private final double[] counts;

    private ConfusionMatrix(int classes, double[] counts) {
        this.classes = classes;
        this.counts = counts;
    }

    static ConfusionMatrix of(int classes, double[] counts) {
        return new ConfusionMatrix(classes, counts);
    }

    /**
     * Evaluates a classifier on epoch 0 of some data. The largest of its logits is the predicted class; logits and
     * targets have the shapes of {@link Loss#classAxis}.
     */
    public static ConfusionMatrix evaluate(Layer model, DataLoader data, int classes) {
        Device device = model.device();
        return evaluate(data, classes, batch -> new Tensor[] {Precision.current().forward(model,
                batch.input().to(device)), batch.target().to(device)});
    }

    /**
     * Evaluates one result of a model with several inputs or results, as {@link #evaluate(Layer, DataLoader, int)} does
     * a classifier. The target is the field of the data that has the result's name.
     */
    public static <I extends Record, O extends Record> ConfusionMatrix evaluate(Model<I, O> model, String output,
            DataLoader data, int classes) {
        Device device = model.device();
        RecordType<I> inputs = model.inputs();
        int component = model.outputs().names().indexOf(output);
        if (component < 0) {
            throw TensorException.argument("confusion matrix", "the model's results " + model.outputs()
                    + " have no component " + output, "name one of " + model.outputs().names());
        }
        data.require(model.describe(), Stream.concat(inputs.names().stream(), Stream.of(output)).toList());
        return evaluate(data, classes, batch -> {
            Tensor[] fields = inputs.names().stream().map(name -> batch.tensor(name).to(device)).toArray(Tensor[]::new);
            O results = Precision.current().forward(model, inputs.create(fields));
            return new Tensor[] {model.outputs().tensors(results)[component], batch.tensor(output).to(device)};
        });
    }

    /** Evaluates a function of a batch that returns logits and targets. */
    private static ConfusionMatrix evaluate(DataLoader data, int classes, Function<Batch, Tensor[]> answers) {
        double[] counts = new double[requireClasses(classes) * classes];
        Mode.inference(() -> Recorder.with(Recorder.NONE, () -> {
            for (Batch batch : data.epoch(0)) {
                if (batch.size() > 0) {
                    try (Scope scope = Scope.open("evaluation")) {
                        Tensor[] each = answers.apply(batch);
                        count(counts, classes, each[0], each[1]);
                    }
                }
            }
            return counts;
        }));
        return new ConfusionMatrix(classes, counts);
    }

    /** Returns a number of classes for which there is a matrix. */
    static int requireClasses(int classes) {
        if (classes < 1 || classes > MAX_CLASSES) {
            throw TensorException.argument("confusion matrix", "1 to " + MAX_CLASSES + " classes are possible, got "
                    + classes, "give the number of the model's classes");
        }
        return classes;
    }

    /** Adds what a batch contributes to counts. */
    static void count(double[] counts, int classes, Tensor logits, Tensor target) {
        int axis = Loss.classAxis(logits, target);
        if (logits.size(axis) > classes) {
            throw TensorException.argument("confusion matrix", "the model has " + logits.size(axis)
                    + " classes, but the matrix " + classes, "give the number of the model's classes");
        }
        long[] predicted = logits.argmax(axis).reshape(-1).toLongs();
        long[] actual = target.to(DType.I64).reshape(-1).toLongs();
        for (int i = 0; i < actual.length; i++) {
            // Other targets mark positions that do not count.
            if (actual[i] >= 0 && actual[i] < classes) {
                counts[(int) actual[i] * classes + (int) predicted[i]]++;
            }
        }
    }

    /** Returns the number of classes. */
    public int classes() {
        return classes;
    }

    /** Returns the number of examples of class {@code actual} for which class {@code predicted} was predicted. */
    public long count(int actual, int predicted) {
        if (actual < 0 || actual >= classes || predicted < 0 || predicted >= classes) {
            throw TensorException.argument("confusion matrix", "there are classes 0 to " + (classes - 1) + ", got "
                    + actual + " and " + predicted, "use the index of a class");
        }
        return (long) counts[actual * classes + predicted];
    }

    /** Returns the share of examples that were classified correctly. */
    public double accuracy() {
        return IntStream.range(0, classes).mapToDouble(c -> count(c, c)).sum() / IntStream.range(0, classes)
                .mapToDouble(this::actual).sum();
    }

    /** Returns the share of the examples predicted to be of a class that are of it; NaN if there are none. */
    public double precision(int of) {
        return count(of, of) / predicted(of);
    }

    /** Returns the share of the examples of a class that were predicted to be of it; NaN if there are none. */
    public double recall(int of) {
        return count(of, of) / actual(of);
    }

    /** Returns the harmonic mean of precision and recall of a class; NaN if it neither occurs nor is predicted. */
    public double f1(int of) {
        return 2.0 * count(of, of) / (predicted(of) + actual(of));
    }

    /** Returns the intersection over the union of a class; NaN if it neither occurs nor is predicted. */
    public double iou(int of) {
        return count(of, of) / (predicted(of) + actual(of) - count(of, of));
    }

    double meanPrecision() {
        return mean(c -> predicted(c) == 0 ? 0 : precision(c));
    }

    double meanRecall() {
        return mean(c -> actual(c) == 0 ? 0 : recall(c));
    }

    double meanF1() {
        return mean(this::f1);
    }

    double meanIou() {
        return mean(this::iou);
    }

    private double mean(IntToDoubleFunction of) {
        return IntStream.range(0, classes).filter(c -> predicted(c) + actual(c) > 0).mapToDouble(of).average()
                .orElse(Double.NaN);
    }

    private double actual(int of) {
        return IntStream.range(0, classes).mapToDouble(c -> count(of, c)).sum();
    }

    private double predicted(int of) {
        return IntStream.range(0, classes).mapToDouble(c -> count(c, of)).sum();
    }

    /** Returns a table: a row for each actual class, a column for each predicted one, then precision, recall and F1. */
    @Override
    public String toString() {
        int width = 2 + Math.max(6, IntStream.range(0, classes * classes)
                .map(i -> Long.toString((long) counts[i]).length()).max().orElse(0));
        StringBuilder text = new StringBuilder(String.format("%-8s", "actual"));
        for (int c = 0; c < classes; c++) {
            text.append(String.format("%" + width + "s", "as " + c));
        }
        text.append("  precision  recall     F1\n");
        for (int row = 0; row < classes; row++) {
            text.append(String.format("%-8d", row));
            for (int c = 0; c < classes; c++) {
                text.append(String.format("%" + width + "d", count(row, c)));
            }
            text.append(String.format(Locale.ROOT, "  %9.4f  %6.4f  %5.4f%n", precision(row), recall(row), f1(row))
                    .replace(System.lineSeparator(), "\n"));
        }
        return text.toString();
    }
}
