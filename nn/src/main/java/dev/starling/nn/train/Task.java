package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Module;
import dev.starling.nn.Precision;
import dev.starling.nn.RecordType;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * What steps and evaluations compute of a batch: the results of a model, their losses and the sum of these. A layer
 * with one loss has one input and one result without names; they are found by their positions.
 */
final class Task {
    /** The result of a layer. */
    private static final String UNNAMED = "";

    private final Module model;
    private final UnaryOperator<Tensor[]> forward;
    private final String description;
    /** The names of the fields that are used: the model's inputs, then targets. Empty for a layer. */
    private final List<String> names = new ArrayList<>();
    private final int inputs;
    private final List<Objective.Term> terms;
    /** By loss, the position of the field of its rows' weights, or -1. */
    private final int[] rowWeights;
    /** The results that have a loss, in the order of the losses, and then those that only have metrics. */
    private final List<Result> results = new ArrayList<>();
    private final List<Metric> metrics = new ArrayList<>();
    /** By metric, which of {@link #results} it measures. */
    private final int[] measured;
    /** Number of the first metrics that are losses, in their order. */
    private final int reported;

    /**
     * A result with a loss or a metric.
     *
     * @param name of the result
     * @param component its position among the model's results
     * @param target position of its target among the fields
     * @param narrow whether its loss takes 16-bit elements as they are
     */
    private record Result(String name, int component, int target, boolean narrow) { }

    /** Makes the task of a layer. */
    private Task(Layer layer, Loss loss, List<Metric> metrics) {
        model = layer;
        forward = in -> new Tensor[] {layer.apply(in[0])};
        description = loss.describe();
        inputs = 1;
        terms = List.of(new Objective.Term(UNNAMED, loss, 1, Optional.empty()));
        results.add(new Result(UNNAMED, 0, 1, loss.widens()));
        rowWeights = new int[] {-1};
        reported = 0;
        measured = new int[metrics.size()];
        for (Metric metric : metrics) {
            if (metric instanceof MetricOfOutput of) {
                throw TensorException.argument("metric", of.name() + " measures the result " + of.output()
                        + ", but a layer has one result without a name", "leave out on(\"" + of.output() + "\")");
            }
            this.metrics.add(metric);
        }
        requireDifferentNames(this.metrics);
    }

    private <I extends Record, O extends Record> Task(Model<I, O> model, Objective objective, List<Metric> metrics) {
        this.model = model;
        RecordType<I> in = model.inputs();
        RecordType<O> out = model.outputs();
        forward = tensors -> out.tensors(model.apply(in.create(tensors)));
        description = objective.describe();
        names.addAll(in.names());
        inputs = names.size();
        terms = objective.terms();
        for (Objective.Term term : terms) {
            add(term.output(), out, term.loss().widens());
        }
        rowWeights = new int[terms.size()];
        for (int i = 0; i < rowWeights.length; i++) {
            rowWeights[i] = terms.get(i).rowWeights().map(this::field).orElse(-1);
        }
        reported = terms.size() > 1 ? terms.size() : 0;
        measured = new int[reported + metrics.size()];
        for (int i = 0; i < reported; i++) {
            this.metrics.add(new LossOfOutput(terms.get(i).output(), terms.get(i).loss()));
        }
        for (Metric metric : metrics) {
            measured[this.metrics.size()] = result(metric, out);
            this.metrics.add(metric);
        }
        requireDifferentNames(this.metrics);
    }

    /** Requires a name of its own for each metric, by which reports contain it. */
    private static void requireDifferentNames(List<Metric> metrics) {
        Set<String> found = new HashSet<>();
        for (Metric metric : metrics) {
            if (!found.add(metric.name())) {
                throw TensorException.argument("metric", "two metrics have the name " + metric.name(),
                        "leave one out, or give it another name, as Metric.of(name, ..) does");
            }
        }
    }

    static Task of(Layer layer, Loss loss, List<Metric> metrics) {
        return new Task(layer, loss, metrics);
    }

    static Task of(Model<?, ?> model, Objective objective, List<Metric> metrics) {
        return new Task(model, objective, metrics);
    }

    /** Adds a result, whose target is the field of its name, and returns its position among the results. */
    private int add(String name, RecordType<?> outputs, boolean narrow) {
        int component = outputs.names().indexOf(name);
        if (component < 0) {
            throw TensorException.argument("objective", "the model's results " + outputs + " have no component "
                    + name, "name one of " + outputs.names());
        }
        results.add(new Result(name, component, field(name), narrow));
        return results.size() - 1;
    }

    /** Returns the position of a field among those that are used, and adds it if necessary. */
    private int field(String name) {
        if (!names.contains(name)) {
            names.add(name);
        }
        return names.indexOf(name);
    }

    /** Returns which result a metric measures. */
    private int result(Metric metric, RecordType<?> outputs) {
        if (!(metric instanceof MetricOfOutput of)) {
            if (outputs.names().size() > 1) {
                throw TensorException.argument("metric", metric.name() + " may measure any of the results " + outputs,
                        "choose one: Metric.on(\"" + outputs.names().getFirst() + "\")");
            }
            return 0;
        }
        for (int i = 0; i < results.size(); i++) {
            if (results.get(i).name.equals(of.output())) {
                return i;
            }
        }
        return add(of.output(), outputs, false);
    }

    Module model() {
        return model;
    }

    List<Loss> lossFunctions() {
        return terms.stream().map(Objective.Term::loss).toList();
    }

    /** Returns the losses that are reported on their own, if there are several, and the metrics. */
    List<Metric> metrics() {
        return metrics;
    }

    /** Returns the description of the losses. */
    String describe() {
        return description;
    }

    /** Returns the number of losses. */
    int losses() {
        return terms.size();
    }

    /** Returns the factor of a loss in the sum. */
    double weight(int loss) {
        return terms.get(loss).weight();
    }

    /** Returns by what a loss of a batch was divided. */
    double divisor(int loss, BatchResult batch) {
        return rowWeights[loss] >= 0 ? batch.rows()
                : terms.get(loss).loss().divisor(batch.results()[loss], batch.targets()[loss]);
    }

    /** Returns a loss, which must not be one that only wrong targets give. */
    double checked(int loss, double value) {
        Objective.Term term = terms.get(loss);
        if (value < 0 && term.weight() >= 0 && rowWeights[loss] < 0 && term.loss().expectsProbabilities()) {
            throw TensorException.argument("loss", "the targets " + (names.isEmpty() ? "" : "of "
                    + term.output() + " ") + "must lie between 0 and 1, which they do not: the loss is " + value,
                    "subtract 1 from labels 1 and 2; use Loss.softMargin() for labels -1 and 1");
        }
        return value;
    }

    /** Refuses a batch with a loss that only wrong targets give. */
    void check(BatchResult result) {
        for (int i = 0; i < losses(); i++) {
            if (terms.get(i).loss().expectsProbabilities()) {
                checked(i, result.losses()[i].item());
            }
        }
    }

    /** Returns the number of results that have a loss or a metric. */
    int results() {
        return results.size();
    }

    /** Returns the number of fields that are the model's inputs; they come first. */
    int inputs() {
        return inputs;
    }

    /** Returns the name of a field in messages. */
    String fieldName(int field) {
        String name = names.isEmpty() ? "" : " " + names.get(field);
        // What is no input of a model is a target or the weights of rows.
        return (field < inputs ? "the input" : names.isEmpty() ? "the target" : "the field") + name;
    }

    /** Returns each of several losses of a batch, for a message. */
    String each(BatchResult result) {
        return losses() == 1 ? "" : IntStream.range(0, losses()).mapToObj(i -> terms.get(i).output() + " "
                + result.losses()[i].item()).collect(Collectors.joining(", ", " (", ")"));
    }

    /** Returns means over batches that have not been measured yet. */
    Averages averages() {
        return new Averages(this, metrics, reported, measured);
    }

    /** Requires the fields of the task in some data. */
    void require(DataLoader data) {
        data.require(model.describe(), names);
    }

    /** Returns the fields of a batch that are used. */
    Tensor[] fields(Batch batch) {
        if (names.isEmpty()) {
            return new Tensor[] {batch.input(), batch.target()};
        }
        Tensor[] fields = new Tensor[names.size()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = batch.tensor(names.get(i));
        }
        return fields;
    }

    /** Returns the fields of a batch of a layer. */
    Tensor[] fields(Tensor input, Tensor target) {
        if (!names.isEmpty()) {
            throw TensorException.argument("training step", model.describe() + " takes the fields " + names
                    + ", got one input and one target", "pass a record of the inputs and one of the targets");
        }
        return new Tensor[] {input, target};
    }

    /** Returns the fields of a batch whose inputs and targets are records. */
    Tensor[] fields(Record input, Record targets) {
        if (names.isEmpty()) {
            throw TensorException.argument("training step", model.describe() + " takes one tensor, got a record",
                    "pass the input and the target");
        }
        Tensor[] fields = new Tensor[names.size()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = component(i < inputs ? input : targets, names.get(i));
        }
        return fields;
    }

    private static Tensor component(Record record, String name) {
        RecordType<Record> type = RecordType.of(record);
        int position = type.names().indexOf(name);
        if (position < 0) {
            throw TensorException.argument("training step", type + " has no component " + name,
                    "pass a record of the model's inputs and one of its targets");
        }
        return type.tensors(record)[position];
    }

    static Tensor[] to(Device device, Tensor[] fields) {
        Tensor[] moved = new Tensor[fields.length];
        for (int i = 0; i < moved.length; i++) {
            moved[i] = fields[i].to(device);
        }
        return moved;
    }

    /**
     * Computes results and losses in a precision, which must be the current one.
     *
     * @param fields on the model's device
     */
    BatchResult forward(Precision precision, Tensor[] fields) {
        Tensor[] in = new Tensor[inputs];
        for (int i = 0; i < inputs; i++) {
            in[i] = precision.narrow(fields[i]);
        }
        Tensor[] out = forward.apply(in);
        Tensor[] values = new Tensor[results.size()];
        Tensor[] targets = new Tensor[values.length];
        for (int i = 0; i < values.length; i++) {
            Result result = results.get(i);
            values[i] = result.narrow ? out[result.component] : precision.widen(out[result.component]);
            targets[i] = fields[result.target];
        }
        Tensor[] losses = new Tensor[terms.size()];
        Tensor sum = null;
        for (int i = 0; i < losses.length; i++) {
            Objective.Term term = terms.get(i);
            losses[i] = StepChecks.requireScalar(rowWeights[i] < 0 ? term.loss().of(values[i], targets[i])
                    : term.loss().weighted(values[i], targets[i], fields[rowWeights[i]]));
            Tensor weighted = term.weight() == 1 ? losses[i] : losses[i].mul(term.weight());
            sum = sum == null ? weighted : sum.add(weighted);
        }
        return new BatchResult(Objects.requireNonNull(sum), losses, values, targets, fields[0].size(0));
    }
}
