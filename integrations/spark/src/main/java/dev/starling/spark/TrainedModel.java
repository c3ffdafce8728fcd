package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.EpochReport;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import scala.reflect.ClassTag$;

/**
 * A model with its weights and the columns that it takes: what a run results in, and what adds columns to DataFrames.
 * As a file it is one safetensors file. Immutable.
 */
public final class TrainedModel {
    private final byte[] weights;
    private final Map<String, String> metadata;
    private final List<EpochReport> epochs;

    private TrainedModel(byte[] weights, List<EpochReport> epochs) {
        this.weights = weights;
        this.epochs = List.copyOf(epochs);
        try (SafeTensors file = SafeTensors.of(weights)) {
            metadata = file.metadata();
            ModelDescription.of(metadata);
        }
    }

    /**
     * Takes the bytes of a safetensors file that {@link #safetensors} returned.
     *
     * @throws dev.starling.nn.checkpoint.CheckpointException if they are no such file
     * @throws dev.starling.tensor.TensorException if they describe no model
     */
    public static TrainedModel of(byte[] safetensors) {
        return new TrainedModel(safetensors.clone(), List.of());
    }

    static TrainedModel of(byte[] safetensors, List<EpochReport> epochs) {
        return new TrainedModel(safetensors, epochs);
    }

    /** Reads a file of any Hadoop file system. */
    public static TrainedModel load(String address, Configuration hadoop) {
        Path path = new Path(address);
        try (InputStream in = path.getFileSystem(hadoop).open(path)) {
            return of(in.readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException("the model " + address + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** Writes a file of any Hadoop file system; one that is there is replaced. */
    public void save(String address, Configuration hadoop) {
        Path path = new Path(address);
        try (OutputStream out = path.getFileSystem(hadoop).create(path, true)) {
            out.write(weights);
        } catch (IOException e) {
            throw new UncheckedIOException("the model " + address + " cannot be written: " + e.getMessage(), e);
        }
    }

    /** Returns how the model is built. */
    public ModelDescription description() {
        return ModelDescription.of(metadata);
    }

    /** Returns weights, description and columns as a safetensors file. */
    public byte[] safetensors() {
        return weights.clone();
    }

    /** Returns what came of each epoch on rank 0; those before the stage was restarted may be missing. */
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
     * their partitions. A row that the model cannot take fails the job with a message that names column and row.
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
        Columns columns = Columns.of(metadata, frame.schema(), inputs);
        Broadcast<byte[]> model = SparkColumns.context(frame).broadcast(weights,
                ClassTag$.MODULE$.<byte[]>apply(byte[].class));
        return new Scoring(model, digest(), columns, List.of(outputs)).over(frame);
    }

    /**
     * Makes this model a function of SQL, {@code name(column, ...)}, that computes one row a call; {@link #transform}
     * is faster.
     *
     * @param kind of the result
     */
    public void register(SparkSession session, String name, Output.Kind kind) {
        Broadcast<byte[]> model = ((org.apache.spark.sql.classic.SparkSession) session).sparkContext()
                .broadcast(weights, ClassTag$.MODULE$.<byte[]>apply(byte[].class));
        session.udf().register(name, new ModelFunction(model, digest(), metadata, kind), kind.type());
    }

    private String digest() {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(weights));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
