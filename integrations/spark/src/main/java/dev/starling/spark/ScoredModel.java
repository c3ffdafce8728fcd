package dev.starling.spark;

import dev.starling.nn.Layer;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.broadcast.Broadcast;

/**
 * A model in a Spark plan.
 *
 * @param weights a safetensors file with its description
 * @param digest of those bytes
 * @param metadata of that file, with names, widths and shape of the inputs
 * @param nullForBadRows whether a row that the model cannot score has null results; otherwise it fails the job
 * @param nullForNull whether a row with a null input has null results, as functions of SQL have
 */
record ScoredModel(Broadcast<byte[]> weights, String digest, Map<String, String> metadata, boolean nullForBadRows,
        boolean nullForNull) implements Serializable {
    private static final long serialVersionUID = 1L;

    boolean isNullable() {
        return nullForBadRows || nullForNull;
    }

    /** Returns the model in this process; {@link #release} must follow. */
    Layer lease() {
        return ExecutorModels.lease(digest, weights::value);
    }

    void release() {
        ExecutorModels.release(digest);
    }

    boolean computesAs(ScoredModel other) {
        return digest.equals(other.digest) && nullForBadRows == other.nullForBadRows
                && nullForNull == other.nullForNull;
    }
}
