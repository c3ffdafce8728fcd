package dev.starling.spark.search;

import dev.starling.nn.search.Search;
import dev.starling.nn.search.SearchResult;
import dev.starling.nn.search.Trial;
import dev.starling.spark.PackedRows;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * A {@link Search} on Spark: each task runs one trial, or some concurrently, on a part of the rows, and measures it on
 * the rest. The results are those of the same search on one machine.
 *
 * <pre>{@code
 * Search search = Search.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
 *         .over("sizes", "2,8,2", "2,32,2").over(Search.RATE, "0.001", "0.01").epochs(9).halving(3)
 *         .metric(Metric::accuracy);
 * SearchResult found = SparkSearch.of(search).keep("hdfs://host/trials").run(frame, List.of("x", "y"), "label");
 * System.out.println(found.table());
 * }</pre>
 */
public final class SparkSearch {
    private final Search search;
    private boolean isClass = true;
    private long[] shape;
    private double heldOut = 0.2;
    /** Concurrent trials of a task; 0 for the number of its cores. */
    private int sideBySide;
    private String results;

    private SparkSearch(Search search) {
        this.search = search;
    }

    /** Returns a search on Spark with default settings. */
    public static SparkSearch of(Search search) {
        return new SparkSearch(search);
    }

    /** Treats targets as numbers instead of classes. */
    public SparkSearch ofValues() {
        isClass = false;
        return this;
    }

    /** Sets the shape of one example's input; by default it has one dimension. */
    public SparkSearch shape(long... sizes) {
        shape = sizes.clone();
        return this;
    }

    /** Sets the share of rows, the last ones, to measure on; the default is 0.2. */
    public SparkSearch heldOut(double share) {
        require(share > 0 && share < 1, "the held-out share must be between 0 and 1, got " + share);
        heldOut = share;
        return this;
    }

    /**
     * Sets the number of concurrent trials of a task, each in a thread; the default is {@code spark.task.cpus}, a core
     * for each trial. Trials share the cores of their task. The results are the same for any number.
     */
    public SparkSearch sideBySide(int trials) {
        require(trials > 0, "trials side by side must be positive, got " + trials);
        sideBySide = trials;
        return this;
    }

    /**
     * Saves results in a directory of a Hadoop file system that executors can access, and reuses those that it holds: a
     * search that was stopped runs only the missing trials. A directory belongs to one loss.
     */
    public SparkSearch keep(String directory) {
        results = directory;
        return this;
    }

    /**
     * Runs all trials and waits for them.
     *
     * @throws dev.starling.spark.SparkDataException if the rows cannot be trained on
     * @throws dev.starling.nn.checkpoint.CheckpointException if results cannot be read or kept
     */
    public SearchResult run(Dataset<Row> frame, List<String> inputs, String target) {
        SparkContext context = ((org.apache.spark.sql.classic.SparkSession) frame.sparkSession()).sparkContext();
        PackedRows rows = PackedRows.of(frame, inputs, shape, target, isClass);
        require(rows.size() > 1, "a search needs two rows or more, got " + rows.size());
        int training = Math.clamp((long) Math.floor(rows.size() * (1 - heldOut)), 1, rows.size() - 1);
        String data = rows.digest() + ' ' + training;
        Broadcast<PackedRows> shared = new JavaSparkContext(context).broadcast(rows);
        try {
            TrialTask task = new TrialTask(shared, training, data, search.training(), results,
                    new SerializableConfiguration(context.hadoopConfiguration()));
            SharedResults kept = results == null ? null : new SharedResults(results, context.hadoopConfiguration());
            return search.run(kept, data, (plans, ended) -> run(context, task, plans, ended));
        } finally {
            // destroy() waits for Spark, which an interrupted thread cannot.
            boolean interrupted = Thread.interrupted();
            if (!context.isStopped()) {
                shared.destroy();
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void run(SparkContext context, TrialTask task, List<Trial.Plan> plans, Consumer<Trial> ended) {
        int together = sideBySide > 0 ? sideBySide : context.conf().getInt("spark.task.cpus", 1);
        // At least one task for each slot, so that no slot is idle while a task runs several trials.
        int slots = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile());
        int tasks = Math.max((plans.size() + together - 1) / together, Math.min(plans.size(), slots));
        RDD<Integer> numbers = new JavaSparkContext(context).parallelize(IntStream.range(0, plans.size()).boxed()
                .toList(), tasks).rdd();
        List<Object> partitions = new ArrayList<>(IntStream.range(0, tasks).boxed().toList());
        run(context, numbers, new TrialTask.OfPartition(task, plans), partitions, ended);
    }

    private static void run(SparkContext context, RDD<Integer> numbers, TrialTask.OfPartition task,
            List<Object> partitions, Consumer<Trial> ended) {
        String tag = "starling-" + UUID.randomUUID();
        AtomicReference<RuntimeException> ofListener = new AtomicReference<>();
        context.addJobTag(tag);
        try {
            context.runJob(numbers, task, CollectionConverters.asScala(partitions).toSeq(),
                    new AbstractFunction2<Object, byte[], BoxedUnit>() {
                        @Override
                        public BoxedUnit apply(Object partition, byte[] result) {
                            try {
                                TrialTask.OfPartition.trials(result).forEach(ended);
                            } catch (RuntimeException e) {
                                ofListener.set(e);
                                throw e;
                            }
                            return BoxedUnit.UNIT;
                        }
                    }, ClassTag$.MODULE$.<byte[]>apply(byte[].class));
        } catch (Exception e) {
            // Spark throws checked exceptions without declaring them. It lets the other tasks continue when this thread
            // is interrupted or a result is refused.
            if (!context.isStopped()) {
                context.cancelJobsWithTag(tag, "the search has ended");
            }
            if (e instanceof InterruptedException) {
                Thread.currentThread().interrupt();
                throw new CancellationException("interrupted while trials were running");
            } else if (ofListener.get() != null) {
                throw ofListener.get();
            }
            throw e;
        } finally {
            context.removeJobTag(tag);
        }
    }

    /** Returns the trials of a result as a DataFrame. */
    public static Dataset<Row> frame(SparkSession session, SearchResult result) {
        List<Row> rows = new ArrayList<>();
        for (Trial t : result.trials()) {
            rows.add(RowFactory.create(t.number(), t.settings(), t.epochs(), t.loss(), t.metric(), t.seconds(),
                    t.problem()));
        }
        return session.createDataFrame(rows, new StructType().add("trial", DataTypes.IntegerType)
                .add("settings", DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType))
                .add("epochs", DataTypes.IntegerType).add("loss", DataTypes.DoubleType)
                .add("metric", DataTypes.DoubleType).add("seconds", DataTypes.DoubleType)
                .add("problem", DataTypes.StringType));
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("search", relation, "change it");
        }
    }
}
