package dev.starling.spark;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The parameters of a task of a run. It travels in Spark's closure, and so does the secret: in no configuration, and
 * in no text of this.
 *
 * @param heldOut columns of the held-out rows, or {@code null}
 * @param epochs of the run, pre-training included
 * @param pretraining epochs of each machine of a {@link DeepBelief} network
 * @param workers tasks that train; those behind them serve
 * @param elastic where the others continue without a task that is lost; {@code null} in a barrier stage
 * @param attempt of the job, from 1
 * @param checkpoints address of a directory on a Hadoop file system, or {@code null}
 * @param everySteps between checkpoints; 0 for the end of each epoch
 * @param cacheBytes of rows that a task holds in memory
 */
record TrainingJob(Columns columns, Columns heldOut, String factory, Map<String, String> settings, Recipe<Loss> loss,
        OptimizerFactory optimizer, List<Recipe<Metric>> metrics, List<WorkerListenerFactory> listeners, int epochs,
        int pretraining, int batchSize, long seed, boolean shuffles, Strategy strategy, int workers, Elastic elastic,
        int attempt, String secret, String transport, Duration silence, Duration patience, String checkpoints,
        long everySteps, long cacheBytes, SerializableConfiguration hadoop, ProgressAccumulator progress)
        implements Serializable {
    private static final long serialVersionUID = 1L;

    /**
     * What the tasks of an ordinary stage cannot tell each other.
     *
     * @param coordinator where they meet, on the driver
     * @param sizes how many rows each partition has
     */
    record Elastic(String coordinator, int[] sizes) implements Serializable {
        private static final long serialVersionUID = 1L;
    }

    /** Returns this for another attempt. */
    TrainingJob attempt(int number, Elastic meeting) {
        return new TrainingJob(columns, heldOut, factory, settings, loss, optimizer, metrics, listeners, epochs,
                pretraining, batchSize, seed, shuffles, strategy, workers, meeting, number, secret, transport,
                silence, patience, checkpoints, everySteps, cacheBytes, hadoop, progress);
    }

    ModelDescription model() {
        return new ModelDescription(factory, settings);
    }

    int tasks() {
        return workers + strategy.serverTasks();
    }

    /** Returns how a process of this run is reached. */
    TransportConfig reachedAt(String host) {
        return TransportConfig.of(transport, Secret.ofHex(secret)).at(host, 0).livenessTimeout(silence);
    }

    @Override
    public String toString() {
        return "training of " + factory + settings + " by " + workers + " workers, " + strategy;
    }
}
