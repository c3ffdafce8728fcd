package dev.starling.spark;

import dev.starling.errors.StarlingException;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.checkpoint.Sha256;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.EpochReport;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import scala.reflect.ClassTag$;

/**
 * A trained model with its weights and the names of its input columns, which can add columns to DataFrames. It is saved
 * as one safetensors file. Immutable; threads may share it.
 */
public final class TrainedModel {
    private final byte[] weights;
    private final Map<String, String> metadata;
    private final List<EpochReport> epochs;
    private final boolean nullForBadRows;
    private final String digest;
    /** The weights in the application of the last query: its queries share them. */
    private Broadcast<byte[]> broadcast;
    private String application;

    private TrainedModel(byte[] weights, List<EpochReport> epochs, boolean nullForBadRows) {
        this.weights = weights;
        this.nullForBadRows = nullForBadRows;
        this.epochs = List.copyOf(epochs);
        try (SafeTensors file = SafeTensors.of(weights)) {
            metadata = file.metadata();
            ModelDescription.of(metadata);
        }
        digest = Sha256.of(weights);
    }

    /**
     * Returns a model from the bytes that {@link #safetensors} returned.
     *
     * @throws dev.starling.nn.checkpoint.CheckpointException if they are no such file
     * @throws dev.starling.tensor.TensorException if they describe no model
     */
    public static TrainedModel of(byte[] safetensors) {
        return new TrainedModel(safetensors.clone(), List.of(), false);
    }

    static TrainedModel of(byte[] safetensors, List<EpochReport> epochs) {
        return new TrainedModel(safetensors, epochs, false);
    }

    /**
     * Reads a file of any Hadoop file system.
     *
     * @throws SparkDataException if it holds no model; names the file
     * @throws UncheckedIOException if it cannot be read
     */
    public static TrainedModel load(String address, Configuration hadoop) {
        Path path = new Path(address);
        try (InputStream in = path.getFileSystem(hadoop).open(path)) {
            return of(in.readAllBytes());
        } catch (StarlingException e) {
            throw new SparkDataException("the file " + address + " holds no model: " + e.getMessage());
        } catch (IOException e) {
            throw new UncheckedIOException("the model " + address + " cannot be read: " + e.getMessage(), e);
        }
    }

    /**
     * Writes a file of any Hadoop file system; replaces an existing one.
     *
     * @throws UncheckedIOException if it cannot be written; an existing file is then as it was. Where the file
     *     system cannot replace a file in one step, it may be missing; the new one is then beside it, with a longer
     *     name
     */
    public void save(String address, Configuration hadoop) {
        Path path = new Path(address);
        Path draft = path.suffix("." + UUID.randomUUID());
        try {
            FileSystem files = path.getFileSystem(hadoop);
            write(files, draft);
            try {
                SharedFiles.replace(files, draft, path);
            } catch (IOException e) {
                if (files.exists(path)) {
                    files.delete(draft, false);
                }
                throw e;
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the model " + address + " cannot be written: " + e.getMessage(), e);
        }
    }

    private void write(FileSystem files, Path path) throws IOException {
        try (OutputStream out = files.create(path, true)) {
            out.write(weights);
        } catch (IOException e) {
            files.delete(path, false);
            throw e;
        }
    }

    /** Returns the description from which the model is built. */
    public ModelDescription description() {
        return ModelDescription.of(metadata);
    }

    /** Returns weights, description and columns as a safetensors file. */
    public byte[] safetensors() {
        return weights.clone();
    }

    /** Returns whether the model was trained on classes, so that the index of its largest number is its result. */
    public boolean isClassifier() {
        return Boolean.parseBoolean(metadata.get(Columns.CLASS));
    }

    /** Returns rank 0's report of each epoch; epochs before a restart of the stage may be missing. */
    public List<EpochReport> epochs() {
        return epochs;
    }

    /** Builds the model with its weights, in this process; the caller closes it. */
    public Layer build() {
        try (SafeTensors file = SafeTensors.of(weights)) {
            return ModelDescription.load(file, Thread.currentThread().getContextClassLoader());
        }
    }

    /**
     * Adds columns that the model computes, batch by batch, to a DataFrame, streaming or not. Rows keep their order and
     * their partitions. A row that the model cannot score fails the job with a message that names column and row.
     */
    public Dataset<Row> transform(Dataset<Row> frame, Output... outputs) {
        return transform(frame, List.of(), outputs);
    }

    /**
     * As {@link #transform(Dataset, Output...)}, with other input columns than those of training.
     *
     * @param inputs as many as in training, of the same widths
     */
    public Dataset<Row> transform(Dataset<Row> frame, List<String> inputs, Output... outputs) {
        List<String> names = inputs.isEmpty() ? Columns.names(metadata) : inputs;
        new Columns.Selection(names, null, null, false).check(frame.schema());
        LogicalPlan plan = SparkColumns.plan(frame);
        List<Expression> arguments = names.stream().<Expression>map(name -> plan.output().apply(
                frame.schema().fieldIndex(name))).toList();
        ScoredModel model = scored(frame.sparkSession(), false);
        List<Column> columns = new ArrayList<>(List.of(functions.col("*")));
        Set<String> present = SparkColumns.classic(frame.sparkSession()).sessionState().conf().caseSensitiveAnalysis()
                ? new HashSet<>() : new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
        present.addAll(List.of(frame.schema().fieldNames()));
        for (Output output : outputs) {
            if (!present.add(output.column())) {
                throw new SparkDataException("there is a column \"" + output.column() + "\" already; name another");
            }
            ModelCall call = ModelCall.of(output.column(), model, output.kind(), arguments);
            call.columns();
            columns.add(ExpressionUtils.column(call).as(output.column()));
        }
        return frame.select(columns.toArray(Column[]::new));
    }

    /**
     * Registers this model as a SQL function, {@code name(column, ...)}, of the columns of training or of one array of
     * all their numbers. It computes in batches as {@link #transform} does, except in a branch of {@code CASE} and in
     * lambdas, where it computes row by row. The result for null is null.
     *
     * @param kind of the result
     */
    public void register(SparkSession session, String name, Output.Kind kind) {
        org.apache.spark.sql.classic.SparkSession classic = SparkColumns.classic(session);
        ScoredModel model = scored(session, true);
        classic.sessionState().functionRegistry().createOrReplaceTempFunction(name,
                arguments -> ModelCall.of(name, model, kind, Plans.list(arguments)), "scala_udf");
    }

    /**
     * Returns the same model with null results for rows that it cannot score (null, NaN, another number of values, an
     * image that cannot be read), instead of failing the job.
     */
    public TrainedModel nullForBadRows() {
        return new TrainedModel(weights, epochs, true);
    }

    private ScoredModel scored(SparkSession session, boolean nullForNull) {
        org.apache.spark.sql.classic.SparkSession classic = SparkColumns.classic(session);
        BatchRule.install(classic);
        return new ScoredModel(broadcast(classic.sparkContext()), digest, metadata, nullForBadRows, nullForNull);
    }

    private synchronized Broadcast<byte[]> broadcast(SparkContext context) {
        if (!context.applicationId().equals(application)) {
            broadcast = context.broadcast(weights, ClassTag$.MODULE$.<byte[]>apply(byte[].class));
            application = context.applicationId();
        }
        return broadcast;
    }
}
