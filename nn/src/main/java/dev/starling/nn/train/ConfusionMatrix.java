package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Model;
import dev.starling.nn.Precision;
import dev.starling.nn.RecordType;
import dev.starling.nn.chart.Canvas;
import dev.starling.nn.chart.Picture;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** How often each class was predicted for the examples of each class. */
public final class ConfusionMatrix {
    private static final int MAX_CLASSES = 10_000;
    /** What masks of 8 bits have at positions without a class, such as edges of objects. */
    private static final int NO_CLASS = 255;
    private static final int MAX_DRAWN = 200;
    private static final int CELL_HEIGHT = 28;
    private static final String INK = "#333333";

    private final int classes;
    /** By actual and predicted class. */
    private final double[] counts;
    private final List<String> names;

    private ConfusionMatrix(int classes, double[] counts, List<String> names) {
        this.classes = classes;
        this.counts = counts;
        this.names = names;
    }

    static ConfusionMatrix of(int classes, double[] counts) {
        return new ConfusionMatrix(classes, counts, IntStream.range(0, classes).mapToObj(Integer::toString).toList());
    }

    /**
     * Evaluates a classifier on epoch 0 of some data. The largest of its logits is the predicted class; logits and
     * targets have the shapes of {@link Loss#classAxis}. Positions whose target is negative do not count,
     * nor those of 255 if there are at most 255 classes.
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
        if (data.examples() == 0) {
            throw TensorException.argument("confusion matrix", "there is no example to evaluate",
                    "check the data set, or leave out dropLast() of its loader");
        }
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
        if (Double.isNaN(counts[0])) {
            throw TensorException.argument("confusion matrix", "a result of the model has an element that is NaN",
                    "find the first operation that is not finite with Tape.detectAnomalies");
        }
        return of(classes, counts);
    }

    /** Returns this matrix with names of the classes in place of their numbers, by index. */
    public ConfusionMatrix named(List<String> ofClasses) {
        if (ofClasses.size() != classes) {
            throw TensorException.argument("confusion matrix", "there are " + ofClasses.size() + " names for " + classes
                    + " classes", "pass one name for each class");
        }
        return new ConfusionMatrix(classes, counts, List.copyOf(ofClasses));
    }

    /** Returns a number of classes for which there is a matrix. */
    static int requireClasses(int classes) {
        if (classes < 1 || classes > MAX_CLASSES) {
            throw TensorException.argument("confusion matrix", "1 to " + MAX_CLASSES + " classes are possible, got "
                    + classes, "give the number of the model's classes");
        }
        return classes;
    }

    /** Adds what a batch contributes to counts, all of which are NaN if a logit is. */
    static void count(double[] counts, int classes, Tensor logits, Tensor target) {
        int axis = Loss.classAxis(logits, target);
        if (logits.size(axis) > classes) {
            throw TensorException.argument("confusion matrix", "the model has " + logits.size(axis)
                    + " classes, but the matrix " + classes, "give the number of the model's classes");
        }
        long[] predicted = logits.argmax(axis).reshape(-1).toLongs();
        long[] actual = target.to(DType.I64).reshape(-1).toLongs();
        for (int i = 0; i < actual.length; i++) {
            if (actual[i] >= classes && actual[i] != NO_CLASS) {
                throw TensorException.argument("confusion matrix", "there are classes 0 to " + (classes - 1) + ", got "
                        + "a target of class " + actual[i], "give the number of classes; mark positions that do not "
                        + "count by a negative target, or 255");
            }
            if (actual[i] >= 0 && actual[i] < classes) {
                counts[(int) actual[i] * classes + (int) predicted[i]]++;
            }
        }
        if (Metrics.hasNan(logits)) {
            Arrays.fill(counts, Double.NaN);
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

    /**
     * Returns a report: a row for each actual class, a column for each predicted one, then precision, recall, F1 and
     * the number of examples; below, the means over classes, the means weighted by examples, and the accuracy.
     */
    @Override
    public String toString() {
        int width = 2 + Math.max(4 + names.stream().mapToInt(String::length).max().orElse(0), IntStream.range(0,
                classes * classes).map(i -> Long.toString((long) counts[i]).length()).max().orElse(0));
        StringBuilder text = new StringBuilder(pad("actual", -width));
        names.forEach(name -> text.append(pad("as " + name, width)));
        text.append("  precision  recall      F1  examples\n");
        for (int row = 0; row < classes; row++) {
            text.append(pad(names.get(row), -width));
            for (int c = 0; c < classes; c++) {
                text.append(pad(Long.toString(count(row, c)), width));
            }
            text.append(scores(precision(row), recall(row), f1(row), actual(row)));
        }
        int left = width * (classes + 1);
        double all = total();
        return text.append(pad("mean", -left)).append(scores(meanPrecision(), meanRecall(), meanF1(), all))
                .append(pad("weighted mean", -left)).append(scores(weighted(this::precision), weighted(this::recall),
                        weighted(this::f1), all))
                .append(String.format(Locale.ROOT, "accuracy %.2f %%%n", 100 * accuracy()).replace(
                        System.lineSeparator(), "\n")).toString();
    }

    private double total() {
        return IntStream.range(0, classes).mapToDouble(this::actual).sum();
    }

    /** Returns a mean weighted by the examples of each class; a class of which nothing was predicted counts 0. */
    private double weighted(IntToDoubleFunction of) {
        return IntStream.range(0, classes).filter(c -> actual(c) > 0).mapToDouble(c -> actual(c)
                * (predicted(c) == 0 ? 0 : of.applyAsDouble(c))).sum() / total();
    }

    private static String pad(String text, int width) {
        return String.format("%" + width + "s", text);
    }

    private static String scores(double precision, double recall, double f1, double examples) {
        return String.format(Locale.ROOT, "  %9.4f  %6.4f  %6.4f  %8.0f", precision, recall, f1, examples) + "\n";
    }

    /**
     * Draws the matrix: a row for each actual class, a column for each predicted one, darker the larger the share of
     * the row.
     *
     * @param file its name ends in {@code .svg} or {@code .png}
     * @throws dev.starling.nn.data.DataException if it cannot be written, or there are more than 200 classes
     */
    public void draw(Path file) {
        if (classes > MAX_DRAWN) {
            throw new DataException(file, "at most " + MAX_DRAWN + " classes to draw", classes + " classes",
                    "draw a matrix of fewer classes");
        }
        int longest = names.stream().mapToInt(String::length).max().orElse(0);
        int cell = Math.max(28, 8 * longest + 8);
        int left = 8 * Math.max(longest, 10) + 24;
        int top = 56;
        Picture.write(file, left + classes * cell + 16, top + classes * CELL_HEIGHT + 40, canvas -> {
            canvas.box(0, 0, left + classes * cell + 16, top + classes * CELL_HEIGHT + 40, "#ffffff");
            canvas.text(left, 20, 13, Canvas.Anchor.START, INK, "predicted");
            canvas.text(left - 8, top - 10, 13, Canvas.Anchor.END, INK, "actual");
            for (int row = 0; row < classes; row++) {
                double y = top + row * CELL_HEIGHT;
                canvas.text(left - 8, y + 18, 12, Canvas.Anchor.END, INK, names.get(row));
                canvas.text(left + row * cell + cell / 2.0, top - 10, 12, Canvas.Anchor.MIDDLE, INK, names.get(row));
                for (int c = 0; c < classes; c++) {
                    double share = actual(row) == 0 ? 0 : count(row, c) / actual(row);
                    canvas.box(left + c * cell, y, cell - 1, CELL_HEIGHT - 1, shade(share));
                    canvas.text(left + c * cell + cell / 2.0, y + 18, 12, Canvas.Anchor.MIDDLE,
                            share > 0.5 ? "#ffffff" : INK, Long.toString(count(row, c)));
                }
            }
            canvas.text(left, top + classes * CELL_HEIGHT + 24, 12, Canvas.Anchor.START, INK,
                    String.format(Locale.ROOT, "accuracy %.2f %%", 100 * accuracy()));
        });
    }

    /** Returns a colour between white, for 0, and dark blue, for 1. */
    private static String shade(double share) {
        return String.format("#%02x%02x%02x", Math.round(247 - 216 * share), Math.round(249 - 140 * share),
                Math.round(252 - 88 * share));
    }
}
