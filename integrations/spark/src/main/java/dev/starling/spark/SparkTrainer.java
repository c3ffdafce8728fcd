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
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag$;

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
    private static final Duration CHECKING = Duration.ofMillis(200);

    private final ModelDescription model;
    private final Recipe<Loss> loss;
    private final OptimizerFactory optimizer;
    private final List<Recipe<Metric>> metrics = new ArrayList<>();
    private final List<TrainingListener> listeners = new ArrayList<>();
    private final List<WorkerListenerFactory> workerListeners = new ArrayList<>();
    private List<String> inputs = List.of();
    private long[] shape;
    private String target;
    private boolean isClass;
    private int epochs = 1;
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

    /** Sets how often the run goes through the rows; the default is 1. */
    public SparkTrainer epochs(int count) {
        epochs = positive("epochs", count);
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

    /** Sets what is measured beside the loss. */
    @SafeVarargs
    public final SparkTrainer metrics(Recipe<Metric>... measured) {
        metrics.addAll(List.of(measured));
        return this;
    }

    /** Adds listeners, which hear on the driver how rank 0 fares, for example a progress bar. */
    public SparkTrainer listeners(TrainingListener... added) {
        listeners.addAll(List.of(added));
        return this;
    }

    /** Adds listeners that each worker makes for itself and that hear, in its executor, how this worker fares. */
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
     * Saves checkpoints in a directory that all executors see, on any Hadoop file system, after each epoch, and goes on
     * from the latest one there: when the stage begins again because an executor was lost, and in a later run.
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
        if (target == null) {
            throw new SparkDataException("no target is named; name its column with classes(...) or target(...)");
        }
        Columns.Wish wish = new Columns.Wish(inputs, shape, target, isClass);
        wish.check(frame.schema());
        Dataset<Row> selected = frame.select(Arrays.stream(wish.names()).map(SparkColumns::exactly)
                .toArray(org.apache.spark.sql.Column[]::new));
        SparkContext context = SparkColumns.context(frame);
        int servers = strategy.serverTasks();
        // Before the first job: without executors even that would wait for ever.
        Slots.await(context, Math.max(1, workers) + servers, slotsWithin);
        Columns columns = wish.resolve(selected.schema(), SparkColumns.first(selected));
        check(columns);
        int count = workers > 0 ? workers : Math.min(Slots.of(context) - servers,
                SparkColumns.rows(selected).getNumPartitions());
        ProgressAccumulator progress = new ProgressAccumulator();
        context.register(progress, "starling");
        TrainingJob job = new TrainingJob(columns, model.factory(), model.settings(), loss, optimizer,
                List.copyOf(metrics), List.copyOf(workerListeners), epochs, batchSize, seed, shuffles, strategy, count,
                Secret.random().toHex(), transport, silence, patience, checkpoints, everySteps, cacheBytes,
                new SerializableConfiguration(context.hadoopConfiguration()), progress);
        RemoteRun run = new RemoteRun(epochs, metrics.stream().map(Recipe::make).toList(), listeners);
        try {
            return TrainedModel.of(runAgain(context, placed(selected, count, servers), job, run), run.epochs());
        } finally {
            run.ended();
        }
    }

    /** Runs the stage until it ends well: Spark itself restarts no barrier stage that ends a job. */
    private byte[] runAgain(SparkContext context, RDD<InternalRow> rows, TrainingJob job, RemoteRun run) {
        for (int attempt = 1; true; attempt++) {
            try {
                return run(context, rows, job, run);
            } catch (SparkJobException e) {
                if (attempt == attempts || !JobWatch.isLostTask(e)) {
                    throw e;
                }
                LOG.log(System.Logger.Level.WARNING, "attempt {0} of {1} failed and is begun again{2}: {3}", attempt,
                        attempts, checkpoints == null ? "" : " from the latest checkpoint in " + checkpoints,
                        e.getMessage());
                Slots.await(context, job.tasks(), slotsWithin);
            }
        }
    }

    /** Returns rows in as many partitions as there are tasks; those of servers are empty. */
    private static RDD<InternalRow> placed(Dataset<Row> selected, int workers, int servers) {
        RDD<InternalRow> rows = SparkColumns.rows(selected);
        int partitions = rows.getNumPartitions();
        if (servers == 0 && SparkColumns.suitBarrier(rows, workers)) {
            return rows;
        }
        // Whole partitions go to one worker each where there are enough; otherwise row after row to the next worker.
        org.apache.spark.sql.Column source = partitions >= workers ? functions.spark_partition_id()
                : functions.monotonically_increasing_id();
        String id = "starling_worker";
        Dataset<Row> moved = selected.withColumn(id, functions.pmod(source, functions.lit(workers)).cast("int"));
        return SparkColumns.rows(moved.repartitionById(workers + servers, functions.col(id)).drop(id));
    }

    /** Runs the model on one row of zeros, here on the driver. */
    private void check(Columns columns) {
        try (Scope scope = Scope.open("check");
                Layer built = model.build(Thread.currentThread().getContextClassLoader(), Generator.seeded(seed))) {
            Shape input = Shape.of(columns.shape()).insert(0, 2);
            Tensor result = Mode.inference(() -> built.forward(Tensor.zeros(input.dims())));
            Tensor wanted = columns.isClass() ? Tensor.zeros(2).to(DType.I64)
                    : Tensor.zeros(2, columns.target().width());
            loss.make().of(result, wanted);
        } catch (TensorException e) {
            throw new SparkDataException("the model " + model.factory() + model.settings() + " does not fit the "
                    + "columns " + inputs + " of shape " + Arrays.toString(columns.shape()) + " and \"" + target
                    + "\": " + e.getMessage());
        }
    }

    private byte[] run(SparkContext context, RDD<InternalRow> rows, TrainingJob job, RemoteRun run) {
        LiveProgress live = new LiveProgress(job.progress().id(), "starling", run);
        context.addSparkListener(live);
        try (JobWatch watch = JobWatch.start(context, live, job.tasks(), slotsWithin, CHECKING)) {
            List<byte[]> results = rows.barrier().mapPartitions(new TrainingTask(job), false,
                    ClassTag$.MODULE$.<byte[]>apply(byte[].class)).toJavaRDD().collect();
            return weights(results);
        } catch (SparkDataException | SparkJobException e) {
            throw e;
        } catch (Exception e) {
            // Spark throws checked exceptions that no signature names.
            throw JobWatch.failure(e);
        } finally {
            live.take(job.progress().value());
            context.removeSparkListener(live);
        }
    }

    private static byte[] weights(List<byte[]> results) {
        for (byte[] result : results) {
            byte[] content = Arrays.copyOfRange(result, 1, result.length);
            if (result[0] == TrainingTask.PROBLEM) {
                throw new SparkDataException(new String(content, StandardCharsets.UTF_8));
            }
            return content;
        }
        throw new SparkJobException("rank 0 returned no weights; its log says why");
    }
}
