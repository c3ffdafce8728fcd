package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.RemoteRun;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Trains a model where a DataFrame's partitions lie: one worker a task of a barrier stage. Workers exchange gradients
 * or weights over Starling's transport, never through Spark.
 *
 * <pre>{@code
 * TrainedModel trained = SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "784,128,10")),
 *                 Loss::crossEntropy, (model, steps) -> Adam.over(model).rate(1e-3).build())
 *         .inputs("pixels").classes("label").epochs(3).batchSize(128).seed(7).metrics(Metric::accuracy)
 *         .listeners(ProgressBar.onStandardError()).fit(frame);
 * Dataset<Row> scored = trained.transform(frame, Output.ofClass("digit"));
 * }</pre>
 *
 * <p>Rows are read once, into off-heap memory of the task, and stay there for all epochs. If the DataFrame has as many
 * partitions as there are workers and no task serves, no row moves; otherwise Spark shuffles them once. Partitions may
 * be of any size, even empty; each row is taken once an epoch. Used by one thread.
 */
public final class SparkTrainer {
    private static final System.Logger LOG = System.getLogger("dev.starling.spark");

    private final ModelDescription model;
    private final Recipe<Loss> loss;
    private final OptimizerFactory optimizer;
    private final List<Recipe<Metric>> metrics = new ArrayList<>();
    private final List<TrainingListener> listeners = new ArrayList<>();
    private final List<Consumer<Pause>> pauses = new ArrayList<>();
    private final List<WorkerListenerFactory> workerListeners = new ArrayList<>();
    private List<String> inputs = List.of();
    private long[] shape;
    private String target;
    private boolean isClass;
    private Dataset<Row> heldOut;
    private int epochs = 1;
    private int pretraining;
    private int batchSize = 32;
    private long seed;
    private boolean shuffles = true;
    private Strategy strategy = Strategy.ring();
    private int workers;
    private String transport = "aeron";
    private Duration silence = Duration.ofSeconds(10);
    private Duration patience = Duration.ofMinutes(2);
    private Duration slotsWithin = Duration.ofMinutes(1);
    private int attempts = 4;
    private boolean elastic;
    private String checkpoints;
    private long everySteps;
    private long cacheBytes = 1L << 30;

    private SparkTrainer(ModelDescription model, Recipe<Loss> loss, OptimizerFactory optimizer) {
        this.model = model;
        this.loss = loss;
        this.optimizer = optimizer;
    }

    /** Begins a trainer. */
    public static SparkTrainer of(ModelDescription model, Recipe<Loss> loss, OptimizerFactory optimizer) {
        return new SparkTrainer(model, loss, optimizer);
    }

    /** Names the columns whose numbers, one after the other, make the model's input. */
    public SparkTrainer inputs(String... columns) {
        inputs = List.of(columns);
        return this;
    }

    /** Sets the shape of one example's input; by default it has one dimension. */
    public SparkTrainer shape(long... sizes) {
        shape = sizes.clone();
        return this;
    }

    /** Names the column of the class, a whole number from 0 on in any numeric type. */
    public SparkTrainer classes(String column) {
        target = column;
        isClass = true;
        return this;
    }

    /** Names the column of the target, one or more numbers. */
    public SparkTrainer target(String column) {
        target = column;
        isClass = false;
        return this;
    }

    /**
     * Sets rows that each epoch is measured on; they have the same columns. Where all workers take the same step, each
     * measures some of them and the sums are added up; otherwise worker 0 measures all.
     */
    public SparkTrainer heldOut(Dataset<Row> rows) {
        heldOut = rows;
        return this;
    }

    /** Sets how often the run goes through the rows, after {@link #pretraining}; the default is 1. */
    public SparkTrainer epochs(int count) {
        epochs = positive("epochs", count);
        return this;
    }

    /**
     * Trains each machine of a {@link DeepBelief} network for so many epochs first, without labels. The loss and the
     * metric are then those of the stage: the reconstruction error of a machine, later cross-entropy and accuracy.
     */
    public SparkTrainer pretraining(int epochsOfEach) {
        pretraining = positive("epochs of pre-training", epochsOfEach);
        return this;
    }

    /**
     * Sets the rows in a step: of all workers together where they take the same step ({@link Strategy#isSynchronous}),
     * else of each. The default is 32.
     */
    public SparkTrainer batchSize(int rows) {
        batchSize = positive("the batch size", rows);
        return this;
    }

    /** Sets what weights, order and dropout are drawn from; the default is 0. */
    public SparkTrainer seed(long value) {
        seed = value;
        return this;
    }

    /** Takes the rows of each partition in their order, in each epoch. */
    public SparkTrainer inOrder() {
        shuffles = false;
        return this;
    }

    /** Sets how workers train together; the default is {@link Strategy#ring}. */
    public SparkTrainer strategy(Strategy together) {
        strategy = together;
        return this;
    }

    /** Sets how many tasks train; the default is one for each partition, as far as there are slots. */
    public SparkTrainer workers(int count) {
        workers = positive("workers", count);
        return this;
    }

    /** Adds metrics, which are measured along with the loss. */
    @SafeVarargs
    public final SparkTrainer metrics(Recipe<Metric>... measured) {
        metrics.addAll(List.of(measured));
        return this;
    }

    /**
     * Adds listeners that run on the driver and receive the progress of rank 0, for example a progress bar. The run
     * ends if a listener throws an exception.
     */
    public SparkTrainer listeners(TrainingListener... added) {
        listeners.addAll(List.of(added));
        return this;
    }

    /** Adds listeners that each worker makes for itself; they run in its executor and receive its progress. */
    public SparkTrainer onWorkers(WorkerListenerFactory... added) {
        workerListeners.addAll(List.of(added));
        return this;
    }

    /** Sets the transport; the default is {@code aeron}. */
    public SparkTrainer transport(String name) {
        transport = name;
        return this;
    }

    /** Sets after how long without a sign of life a worker is lost; the default is 10 s. */
    public SparkTrainer silence(Duration longest) {
        silence = longest;
        return this;
    }

    /** Sets how long workers wait for each other; the default is 2 minutes. */
    public SparkTrainer patience(Duration longest) {
        patience = longest;
        return this;
    }

    /** Adds listeners that run on the driver and receive each pause of training for lost or new workers. */
    @SafeVarargs
    public final SparkTrainer pauses(Consumer<Pause>... added) {
        pauses.addAll(List.of(added));
        return this;
    }

    /**
     * Lets the other workers continue at once when a task is lost; Spark starts it again, up to
     * {@code spark.task.maxFailures} times, and it joins the others with their state and its rows. For ring and gossip.
     * Training is an ordinary stage then, whose workers meet at the driver, so that the driver needs
     * {@link ExecutorFlags}, too; and rows must be such that a task can read them again by itself.
     */
    public SparkTrainer elastic() {
        elastic = true;
        return this;
    }

    /** Sets how often the stage may run when tasks are lost; the default is 4. */
    public SparkTrainer attempts(int most) {
        attempts = positive("attempts", most);
        return this;
    }

    /** Sets how long the job may wait for enough slots; the default is a minute. */
    public SparkTrainer slotsWithin(Duration longest) {
        slotsWithin = longest;
        return this;
    }

    /**
     * Saves checkpoints in a directory that all executors see, on any Hadoop file system, after each epoch, and
     * resumes from the latest one there: when the stage begins again because an executor was lost, and in a later run.
     */
    public SparkTrainer checkpoints(String address) {
        return checkpoints(address, 0);
    }

    /** As {@link #checkpoints(String)}, after every {@code steps} steps. */
    public SparkTrainer checkpoints(String address, long steps) {
        checkpoints = address;
        everySteps = steps;
        return this;
    }

    /** Sets how many bytes of rows a task holds in off-heap memory before it uses a file; the default is 1 GiB. */
    public SparkTrainer cacheBytes(long bytes) {
        cacheBytes = bytes;
        return this;
    }

    private static int positive(String what, int value) {
        if (value < 1) {
            throw TensorException.argument("spark trainer", what + " must be positive, got " + value, "give 1 or more");
        }
        return value;
    }

    /**
     * Trains, and waits for the end.
     *
     * @throws SparkDataException if the columns or rows cannot be trained on; names column and row
     * @throws SparkJobException if the job cannot start, was cancelled, or failed
     */
    public TrainedModel fit(Dataset<Row> frame) {
        return fit(frame, Secret.random());
    }

    TrainedModel fit(Dataset<Row> frame, Secret secret) {
        if (target == null) {
            throw new SparkDataException("no target is named; name its column with classes(...) or target(...)");
        }
        Columns.Selection selection = new Columns.Selection(inputs, shape, target, isClass);
        Dataset<Row> selected = select(selection, frame);
        Dataset<Row> measured = heldOut == null ? null : select(selection, heldOut);
        SparkContext context = SparkColumns.context(frame);
        checkElastic(context);
        int servers = strategy.serverTasks();
        // Before the first job, which would wait without a limit if there were no executors.
        Slots.await(context, Math.max(1, workers) + servers, slotsWithin);
        Columns columns = selection.resolve(selected.schema(), SparkColumns.first(selected));
        Columns heldOutColumns = measured == null ? null : columns.like(selection.resolve(measured.schema(),
                SparkColumns.first(measured)));
        int machines = check(columns);
        int all = epochs + machines * pretraining;
        int count = workers > 0 ? workers : Math.min(Slots.of(context) - servers,
                SparkColumns.rows(selected).getNumPartitions());
        ProgressAccumulator progress = new ProgressAccumulator();
        context.register(progress, "starling");
        TrainingJob job = new TrainingJob(columns, heldOutColumns, model.factory(), model.settings(), loss, optimizer,
                List.copyOf(metrics), List.copyOf(workerListeners), all, pretraining, batchSize, seed,
                shuffles, strategy, count, null, 1, secret.toHex(), transport, silence, patience, checkpoints,
                everySteps, cacheBytes,
                new SerializableConfiguration(context.hadoopConfiguration()), progress);
        DeepBelief.StageMetric stage = new DeepBelief.StageMetric(machines, pretraining);
        RemoteRun run = new RemoteRun(all, pretraining > 0 ? List.of(stage)
                : metrics.stream().map(Recipe::make).toList(), listeners);
        RDD<InternalRow> training = placed(selected, count, servers);
        RDD<TaskRows> rows = TaskRows.of(training, measured == null ? null : strategy.isSynchronous()
                ? placed(measured, count, servers) : moved(measured, functions.lit(0), count + servers));
        int[] sizes = elastic ? TaskRows.sizes(training) : null;
        try {
            byte[] weights = new DriverRun(context, rows, job, new LiveProgress.Listeners(run, stage::epoch,
                    this::paused), slotsWithin).run(attempts, sizes);
            return TrainedModel.of(weights, run.epochs());
        } finally {
            run.ended();
        }
    }

    private static Dataset<Row> select(Columns.Selection selection, Dataset<Row> frame) {
        selection.check(frame.schema());
        return frame.select(Arrays.stream(selection.names()).map(SparkColumns::exactly)
                .toArray(org.apache.spark.sql.Column[]::new));
    }

    private void paused(Pause pause) {
        LOG.log(System.Logger.Level.WARNING, pause);
        pauses.forEach(listener -> listener.accept(pause));
    }

    private void checkElastic(SparkContext context) {
        if (!elastic) {
            return;
        }
        String missing = ExecutorFlags.missing();
        if (strategy.serverTasks() > 0) {
            throw new SparkJobException("elastic() is for ring and gossip, but the strategy is " + strategy
                    + ", whose servers keep what they know in a task; leave one of them out");
        } else if (context.conf().getBoolean("spark.speculation", false)) {
            throw new SparkJobException("with spark.speculation=true Spark may run a worker twice; set it to false, or "
                    + "leave out elastic()");
        } else if (missing != null) {
            throw new SparkJobException("elastic training needs the driver's JVM to run with " + ExecutorFlags.AGRONA
                    + "; add the flag to its command or to spark.driver.extraJavaOptions, or leave out elastic()");
        }
    }

    /** Returns rows in as many partitions as there are tasks; those of servers are empty. */
    private RDD<InternalRow> placed(Dataset<Row> selected, int workers, int servers) {
        RDD<InternalRow> rows = SparkColumns.rows(selected);
        int partitions = rows.getNumPartitions();
        if (servers == 0 && SparkColumns.suitBarrier(rows, workers)) {
            return elastic ? readableAgain(selected) : rows;
        }
        // Whole partitions go to one worker each where there are enough; otherwise row after row to the next worker.
        org.apache.spark.sql.Column source = partitions >= workers ? functions.spark_partition_id()
                : functions.monotonically_increasing_id();
        return moved(selected, functions.pmod(source, functions.lit(workers)).cast("int"), workers + servers);
    }

    private RDD<InternalRow> moved(Dataset<Row> selected, org.apache.spark.sql.Column task, int tasks) {
        String id = "starling_worker";
        Dataset<Row> moved = selected.withColumn(id, task).repartitionById(tasks, functions.col(id)).drop(id);
        return elastic ? readableAgain(moved) : SparkColumns.rows(moved);
    }

    /**
     * Returns rows that a task can read again while the others continue. What a shuffle wrote is lost with its
     * executor; Spark would then start all tasks of the stage again.
     */
    private static RDD<InternalRow> readableAgain(Dataset<Row> frame) {
        RDD<InternalRow> rows = SparkColumns.rows(frame);
        if (!SparkColumns.isShuffled(rows)) {
            return rows;
        }
        if (SparkColumns.context(frame).getCheckpointDir().isEmpty()) {
            throw new SparkJobException("elastic training needs rows that a task can read again by itself, but these "
                    + "are shuffled: save them with as many partitions as there are workers and read that, or name a "
                    + "directory with SparkContext.setCheckpointDir, where they are kept then");
        }
        return SparkColumns.rows(frame.checkpoint());
    }

    /** Runs the model on rows of zeros, here on the driver; returns how many machines are to be pre-trained. */
    private int check(Columns columns) {
        try (Scope scope = Scope.open("check");
                Layer built = model.build(Thread.currentThread().getContextClassLoader(), Generator.seeded(seed))) {
            Shape input = Shape.of(columns.shape()).insert(0, 2);
            Tensor result = Mode.inference(() -> built.forward(Tensor.zeros(input.dims())));
            Tensor wanted = columns.isClass() ? Tensor.zeros(2).to(DType.I64)
                    : Tensor.zeros(2, columns.target().width());
            loss.make().of(result, wanted);
            if (pretraining == 0) {
                return 0;
            } else if (built instanceof DeepBelief.Network network) {
                return network.machines();
            }
            throw new SparkJobException("pretraining(n) is for models of " + DeepBelief.class.getName() + ", got "
                    + model.factory() + "; leave it out");
        } catch (TensorException e) {
            throw new SparkDataException("the model " + model.factory() + model.settings() + " does not fit the "
                    + "columns " + inputs + " of shape " + Arrays.toString(columns.shape()) + " and \"" + target
                    + "\": " + e.getMessage());
        }
    }
}
