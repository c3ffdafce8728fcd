package dev.starling.spark.ml;

import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.TrainingListener;
import dev.starling.spark.Choices;
import dev.starling.spark.SparkTrainer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.param.DoubleParam;
import org.apache.spark.ml.param.IntArrayParam;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.LongParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsWritable;
import org.apache.spark.ml.util.Identifiable$;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * Trains a Starling model as a stage of a pipeline; see {@link SparkTrainer}.
 *
 * <pre>{@code
 * new Pipeline().setStages(new PipelineStage[] {assembler, new StarlingEstimator()
 *         .setModel(Perceptron.class.getName(), Map.of("sizes", "784,128,10")).setEpochs(3).setBatchSize(128)});
 * }</pre>
 */
public final class StarlingEstimator extends Estimator<StarlingModel>
        implements ColumnParams<StarlingEstimator>, DefaultParamsWritable {
    private static final long serialVersionUID = 1L;

    private final String uid;
    private final Held columns;
    private final Param<String> labelCol;
    private final Param<String> factory;
    private final StringArrayParam settings;
    private final IntArrayParam shape;
    private final Param<String> loss;
    private final Param<String> optimizer;
    private final DoubleParam rate;
    private final IntParam epochs;
    private final IntParam batchSize;
    private final LongParam seed;
    private final Param<String> strategy;
    private final IntParam workers;
    private final transient List<TrainingListener> listeners = new ArrayList<>();

    /** Creates a stage with a unique uid. */
    public StarlingEstimator() {
        this(Identifiable$.MODULE$.randomUID("starling"));
    }

    /** Creates a stage with a given uid, as Spark does when it loads one. */
    public StarlingEstimator(String uid) {
        this.uid = uid;
        columns = Held.of(this);
        labelCol = new Param<>(this, "labelCol", "column of the class or the value");
        factory = new Param<>(this, "factory", "class name of the model's factory");
        settings = new StringArrayParam(this, "settings", "settings of the factory, each name=value");
        shape = new IntArrayParam(this, "shape", "sizes of one row's input; empty: one dimension");
        loss = new Param<>(this, "loss", "cross-entropy, binary-cross-entropy or mean-squared");
        optimizer = new Param<>(this, "optimizer", "adam, adamw or sgd");
        rate = new DoubleParam(this, "rate", "maximum learning rate of the one-cycle schedule");
        epochs = new IntParam(this, "epochs", "passes over the rows");
        batchSize = new IntParam(this, "batchSize", "rows in a step");
        seed = new LongParam(this, "seed", "seed of weights, order and dropout");
        strategy = new Param<>(this, "strategy", "ring, gossip or ps");
        workers = new IntParam(this, "workers", "tasks that train; 0: one for each partition");
        setDefault(labelCol, "label");
        setDefault(settings, new String[0]);
        setDefault(shape, new int[0]);
        setDefault(loss, "cross-entropy");
        setDefault(optimizer, "adam");
        setDefault(rate, 1e-3);
        setDefault(epochs, 1);
        setDefault(batchSize, 32);
        setDefault(seed, 0L);
        setDefault(strategy, "ring");
        setDefault(workers, 0);
    }

    @Override
    public String uid() {
        return uid;
    }

    @Override
    public Held held() {
        return columns;
    }

    /** The column of the class or the value. */
    public Param<String> labelCol() {
        return labelCol;
    }

    /** The class name of the model's factory. */
    public Param<String> factory() {
        return factory;
    }

    /** The settings of the factory, each {@code name=value}. */
    public StringArrayParam settings() {
        return settings;
    }

    /** The sizes of one row's input, such as 1, 28, 28; empty for one dimension. */
    public IntArrayParam shape() {
        return shape;
    }

    /** The loss; see {@link Choices#loss}. */
    public Param<String> loss() {
        return loss;
    }

    /** The optimiser; see {@link Choices#optimizer}. */
    public Param<String> optimizer() {
        return optimizer;
    }

    /** The maximum learning rate. */
    public DoubleParam rate() {
        return rate;
    }

    /** The number of passes over the rows. */
    public IntParam epochs() {
        return epochs;
    }

    /** The rows in a step. */
    public IntParam batchSize() {
        return batchSize;
    }

    /** The seed of weights, order and dropout. */
    public LongParam seed() {
        return seed;
    }

    /** The strategy; see {@link Choices#strategy}. */
    public Param<String> strategy() {
        return strategy;
    }

    /** The number of tasks that train. */
    public IntParam workers() {
        return workers;
    }

    /** Sets the model's factory and its settings. */
    public StarlingEstimator setModel(String className, Map<String, String> values) {
        set(factory, className);
        set(settings, new TreeMap<>(values).entrySet().stream().map(e -> e.getKey() + "=" + e.getValue())
                .toArray(String[]::new));
        return this;
    }

    /** Sets the sizes of one row's input, such as 1, 28, 28; by default it has one dimension. */
    public StarlingEstimator setShape(int... sizes) {
        set(shape, sizes.clone());
        return this;
    }

    /** Sets the number of passes over the rows. */
    public StarlingEstimator setEpochs(int count) {
        set(epochs, count);
        return this;
    }

    /** Sets the rows in a step. */
    public StarlingEstimator setBatchSize(int rows) {
        set(batchSize, rows);
        return this;
    }

    /** Sets the maximum learning rate. */
    public StarlingEstimator setRate(double maximum) {
        set(rate, maximum);
        return this;
    }

    /** Adds listeners that run on the driver; they are not saved. */
    public StarlingEstimator listeners(TrainingListener... added) {
        listeners.addAll(List.of(added));
        return this;
    }

    @Override
    public StarlingModel fit(Dataset<?> dataset) {
        Map<String, String> values = new LinkedHashMap<>();
        for (String setting : getOrDefault(settings)) {
            String[] parts = setting.split("=", 2);
            values.put(parts[0], parts.length == 2 ? parts[1] : "");
        }
        if (!isDefined(factory)) {
            throw new IllegalArgumentException("no model is named; name its factory with setModel(...)");
        }
        boolean isClass = getOrDefault(loss).equals("cross-entropy");
        SparkTrainer trainer = SparkTrainer.of(new ModelDescription(getOrDefault(factory), values),
                Choices.loss(getOrDefault(loss)), Choices.optimizer(getOrDefault(optimizer),
                (double) getOrDefault(rate))).inputs(getOrDefault(featuresCol())).epochs((int) getOrDefault(epochs))
                .batchSize((int) getOrDefault(batchSize)).seed((long) getOrDefault(seed))
                .strategy(Choices.strategy(getOrDefault(strategy)))
                .listeners(listeners.toArray(TrainingListener[]::new));
        int[] sizes = getOrDefault(shape);
        trainer = sizes.length > 0 ? trainer.shape(Arrays.stream(sizes).asLongStream().toArray()) : trainer;
        trainer = isClass ? trainer.classes(getOrDefault(labelCol)).metrics(Metric::accuracy)
                : trainer.target(getOrDefault(labelCol));
        int count = (int) getOrDefault(workers);
        StarlingModel model = new StarlingModel(uid, (count > 0 ? trainer.workers(count) : trainer)
                .fit(dataset.toDF()), isClass);
        return copyValues(model, ParamMap.empty()).setParent(this);
    }

    @Override
    public StructType transformSchema(StructType schema) {
        if (!Arrays.asList(schema.fieldNames()).contains(getOrDefault(labelCol))) {
            throw new IllegalArgumentException("there is no column \"" + getOrDefault(labelCol) + "\"; the columns are "
                    + String.join(", ", schema.fieldNames()));
        }
        return widen(schema);
    }

    @Override
    public StarlingEstimator copy(ParamMap extra) {
        StarlingEstimator copy = copyValues(new StarlingEstimator(uid), extra);
        copy.listeners.addAll(listeners);
        return copy;
    }

    /** Returns a reader of saved stages. */
    public static MLReader<StarlingEstimator> read() {
        return new DefaultParamsReader<>();
    }
}
