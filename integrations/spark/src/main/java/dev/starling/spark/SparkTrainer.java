package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.energy.GreedyTraining;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.search.Search.Recipe;
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
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.Utils;

/**
 * Trains a model in the executors that hold a DataFrame's partitions: each worker is a task of a barrier stage. Workers
 * exchange gradients or weights over Starling's transport, never through Spark.
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
 * partitions as there are workers and there are no parameter servers, no row moves; otherwise Spark shuffles the rows
 * once. Partitions may be of any size, even empty; each row is used once in an epoch. Used by one thread. Each {@link
 * #fit} copies the settings: later changes have no effect on it.
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
    private boolean shuffled = true;
    private Strategy strategy = Strategy.ring();
    private int workers;
    private String transport = TransportConfig.AUTOMATIC;
    private Duration livenessTimeout = Duration.ofSeconds(10);
    private Duration timeout = Duration.ofMinutes(2);
    private Duration slotTimeout = Duration.ofMinutes(1);
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

    /** Returns a trainer with default settings. */
    public static SparkTrainer of(ModelDescription model, Recipe<Loss> loss, OptimizerFactory optimizer) {
        return new SparkTrainer(model, loss, optimizer);
    }

    /** Names the columns whose numbers are concatenated to the model's input. */
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
     * Sets held-out rows, with the same columns, on which each epoch is measured. If all workers take the same steps,
     * each measures some of them and the sums are added up; otherwise worker 0 measures all.
     */
    public SparkTrainer heldOut(Dataset<Row> rows) {
        heldOut = rows;
        return this;
    }

    /** Sets the number of passes over the rows, after {@link #pretraining}; the default is 1. */
    public SparkTrainer epochs(int count) {
        epochs = positive("epochs", count);
        return this;
    }

    /**
     * First trains each machine of a {@link DeepBelief} network for this number of epochs, without labels. Loss and
     * metric are then those of the stage: the reconstruction error of a machine, later cross-entropy and accuracy.
     */
    public SparkTrainer pretraining(int epochsOfEach) {
        pretraining = positive("epochs of pre-training", epochsOfEach);
        return this;
    }

    /**
     * Sets the number of rows in a step: of all workers together if they take the same steps ({@link
     * Strategy#isSynchronous}), else of each worker. The default is 32.
     */
    public SparkTrainer batchSize(int rows) {
        batchSize = positive("the batch size", rows);
        return this;
    }

    /** Sets the seed of weights, order and dropout; the default is 0. */
    public SparkTrainer seed(long value) {
        seed = value;
        return this;
    }

    /** Uses the rows of each partition in their order in each epoch; the default is a random order. */
    public SparkTrainer inOrder() {
        shuffled = false;
        return this;
    }

    /** Sets the strategy of the workers; the default is {@link Strategy#ring}. */
    public SparkTrainer strategy(Strategy ofWorkers) {
        strategy = ofWorkers;
        return this;
    }

    /** Sets the number of tasks that train; the default is one for each partition, limited by the slots. */
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

    /** Adds listeners that each worker creates in its executor; they receive the progress of that worker. */
    public SparkTrainer onWorkers(WorkerListenerFactory... added) {
        workerListeners.addAll(List.of(added));
        return this;
    }

    /** Sets the transport; the default is the one that suits the hosts ({@link TransportConfig#AUTOMATIC}). */
    public SparkTrainer transport(String name) {
        transport = name;
        return this;
    }

    /** Sets how long a worker may be silent before it counts as lost; the default is 10 s. */
    public SparkTrainer livenessTimeout(Duration limit) {
        livenessTimeout = limit;
        return this;
    }

    /** Sets how long workers wait for each other before they fail; the default is 2 minutes. */
    public SparkTrainer timeout(Duration limit) {
        timeout = limit;
        return this;
    }

    /** Adds listeners that run on the driver and receive each pause of training for lost or new workers. */
    @SafeVarargs
    public final SparkTrainer pauses(Consumer<Pause>... added) {
        pauses.addAll(List.of(added));
        return this;
    }

    /**
     * Makes training elastic: when a task is lost, the other workers continue immediately. Spark restarts the task, up
     * to {@code spark.task.maxFailures} times, and it joins the others with their state and its rows. For ring and
     * gossip. Training is then an ordinary stage whose coordinator runs on the driver, so that the driver needs {@link
     * ExecutorFlags} too, and a task must be able to read its rows again by itself.
     */
    public SparkTrainer elastic() {
        elastic = true;
        return this;
    }

    /** Sets how many times the stage may run if tasks are lost; the default is 4. */
    public SparkTrainer attempts(int count) {
        attempts = positive("attempts", count);
        return this;
    }

    /** Sets how long the job may wait for enough free slots; the default is a minute. */
    public SparkTrainer slotTimeout(Duration limit) {
        slotTimeout = limit;
        return this;
    }

    /**
     * Saves a checkpoint after each epoch in a directory of a Hadoop file system that all executors can access, and
     * resumes from the latest one there, after the loss of an executor and in a later run.
     */
    public SparkTrainer checkpoints(String address) {
        return checkpoints(address, 0);
    }

    /** As {@link #checkpoints(String)}, after every {@code steps} steps. */
    public SparkTrainer checkpoints(String address, long steps) {
        if (steps < 0) {
            throw TensorException.argument("spark trainer", "steps must be >= 0, got " + steps, "give 1 or more");
        }
        checkpoints = address;
        everySteps = steps;
        return this;
    }

    /**
     * Sets the size of off-heap memory in which a task holds rows before it uses a file; the default is 1 GiB. Held-out
     * rows have as much again.
     */
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
     * Trains the model and returns it when training has ended.
     *
     * @throws SparkDataException if the columns or rows cannot be trained on; names column and row
     * @throws SparkJobException if the job cannot start, was cancelled, or failed
     */
    public TrainedModel fit(Dataset<Row> frame) {
        return fit(frame, Secret.random());
    }

    TrainedModel fit(Dataset<Row> frame, Secret secret) {
        return EndedByInterrupt.call(SparkColumns.context(frame), () -> train(frame, secret));
    }

    private TrainedModel train(Dataset<Row> frame, Secret secret) {
        if (target == null) {
            throw new SparkDataException("no target is named; name its column with classes(...) or target(...)");
        }
        Columns.Selection selection = new Columns.Selection(inputs, shape, target, isClass);
        Dataset<Row> selected = selection.select(frame);
        Dataset<Row> measured = heldOut == null ? null : selection.select(heldOut);
        SparkContext context = SparkColumns.context(frame);
        checkAllocation(context);
        checkElastic(context);
        int servers = strategy.serverTasks();
        // Checked before the first job, which would wait without a limit if there were no executors.
        Slots.await(context, Math.max(1, workers) + servers, slotTimeout);
        Columns columns = selection.resolve(selected.schema(), SparkColumns.first(selected));
        Columns heldOutColumns = measured == null ? null : columns.requireEqualWidths(
                selection.resolve(measured.schema(), SparkColumns.first(measured)));
        int machines = check(columns);
        int all = epochs + machines * pretraining;
        int count = workers > 0 ? workers : workers(Slots.of(context), servers,
                SparkColumns.rows(selected).getNumPartitions());
        ProgressAccumulator progress = new ProgressAccumulator();
        context.register(progress, "starling");
        TrainingJob job = new TrainingJob(columns, heldOutColumns, model.factory(), model.settings(), loss, optimizer,
                List.copyOf(metrics), List.copyOf(workerListeners), all, pretraining, batchSize, seed,
                shuffled, strategy, count, null, 1, secret.toHex(), transport, livenessTimeout, timeout,
                checkpoints, everySteps, cacheBytes,
                new SerializableConfiguration(context.hadoopConfiguration()), progress);
        AtomicInteger epoch = new AtomicInteger();
        int epochsOfEach = pretraining;
        RDD<InternalRow> training = placed(selected, count, servers);
        RDD<TaskRows> rows = TaskRows.of(training, measured == null ? null : strategy.isSynchronous()
                ? placed(measured, count, servers) : moved(measured, functions.lit(0), count + servers));
        int[] sizes = elastic ? TaskRows.sizes(training) : null;
        try (RemoteRun run = new RemoteRun(all, epochsOfEach > 0
                ? List.of(GreedyTraining.metric(machines, () -> epoch.get() / epochsOfEach))
                : metrics.stream().map(Recipe::make).toList(), List.copyOf(listeners))) {
            byte[] weights = new DriverRun(context, rows, job, new LiveProgress.Listeners(run, epoch::set,
                    this::paused), slotTimeout).run(attempts, sizes);
            return TrainedModel.of(weights, run.epochs());
        }
    }

    /** Returns the default number of workers; the job waits for a slot if all were lost meanwhile. */
    static int workers(int slots, int servers, int partitions) {
        return Math.max(1, Math.min(slots - servers, partitions));
    }

    private void paused(Pause pause) {
        LOG.log(System.Logger.Level.WARNING, pause);
        pauses.forEach(listener -> listener.accept(pause));
    }

    /** Refuses what Spark refuses only once rows are read, and not at all while there are no executors. */
    private void checkAllocation(SparkContext context) {
        if (!elastic && Utils.isDynamicAllocationEnabled(context.conf())) {
            throw new SparkJobException("training runs in a barrier stage, which Spark refuses with "
                    + "spark.dynamicAllocation.enabled=true; set it to false, and spark.executor.instances to the "
                    + "number of executors");
        }
    }

    private void checkElastic(SparkContext context) {
        if (!elastic) {
            return;
        }
        String missing = ExecutorFlags.missing();
        if (strategy.serverTasks() > 0) {
            throw new SparkJobException("elastic() is for ring and gossip, but the strategy is " + strategy
                    + ", whose servers keep their state in a task; leave one of them out");
        } else if (context.conf().getBoolean("spark.speculation", false)) {
            throw new SparkJobException("with spark.speculation=true Spark may run a worker twice; set it to false, or "
                    + "leave out elastic()");
        } else if (missing != null) {
            throw new SparkJobException("elastic training needs the driver's JVM to run with " + ExecutorFlags.AGRONA
                    + "; add the flag to its command or to spark.driver.extraJavaOptions, or leave out elastic()");
        }
    }

    /** Returns rows with one partition for each task; the partitions of servers are empty. */
    private RDD<InternalRow> placed(Dataset<Row> selected, int workers, int servers) {
        RDD<InternalRow> rows = SparkColumns.rows(selected);
        int partitions = rows.getNumPartitions();
        if (servers == 0 && SparkColumns.suitsBarrier(rows, workers)) {
            return elastic ? readableAgain(selected) : rows;
        }
        // If there are enough partitions, each is assigned whole to a worker; otherwise rows are dealt out one by one.
        org.apache.spark.sql.Column source = partitions >= workers ? functions.spark_partition_id()
                : functions.monotonically_increasing_id();
        return moved(selected, functions.pmod(source, functions.lit(workers)).cast("int"), workers + servers);
    }

    private RDD<InternalRow> moved(Dataset<Row> selected, org.apache.spark.sql.Column task, int tasks) {
        // A name that no column of the application has: else this would replace that column.
        String id = "worker-" + UUID.randomUUID();
        Dataset<Row> moved = selected.withColumn(id, task).repartitionById(tasks, functions.col(id)).drop(id);
        return elastic ? readableAgain(moved) : SparkColumns.rows(moved);
    }

    /**
     * Returns rows that a task can read again while the others continue. The files of a shuffle are lost with their
     * executor; Spark would then restart all tasks of the stage.
     */
    private static RDD<InternalRow> readableAgain(Dataset<Row> frame) {
        RDD<InternalRow> rows = SparkColumns.rows(frame);
        if (!SparkColumns.isShuffled(rows)) {
            return rows;
        }
        if (SparkColumns.context(frame).getCheckpointDir().isEmpty()) {
            throw new SparkJobException("elastic training needs rows that a task can read again by itself, but these "
                    + "are shuffled: save them with as many partitions as there are workers and read that, or name a "
                    + "directory with SparkContext.setCheckpointDir, to which they are saved");
        }
        return SparkColumns.rows(frame.checkpoint());
    }

    /** Runs the model on rows of zeros on the driver; returns the number of machines to pre-train. */
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
