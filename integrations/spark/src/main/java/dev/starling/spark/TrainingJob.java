package dev.starling.spark;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.search.Search.Recipe;
import dev.starling.nn.train.Metric;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The configuration of the tasks of a run. Spark sends it in the closure of the tasks, the secret included; the secret
 * is part of no Spark configuration, nor of {@link #toString}.
 *
 * @param heldOut columns of the held-out rows, or {@code null}
 * @param epochs of the run, pre-training included
 * @param pretraining epochs of each machine of a {@link DeepBelief} network
 * @param workers number of tasks that train; the tasks after them are servers
 * @param elastic set if the other workers continue without a lost task; {@code null} in a barrier stage
 * @param attempt of the job, from 1
 * @param checkpoints address of a directory on a Hadoop file system, or {@code null}
 * @param everySteps between checkpoints; 0 for the end of each epoch
 * @param cacheBytes of rows that a task holds in memory
 */
record TrainingJob(Columns columns, Columns heldOut, String factory, Map<String, String> settings, Recipe<Loss> loss,
        OptimizerFactory optimizer, List<Recipe<Metric>> metrics, List<WorkerListenerFactory> listeners, int epochs,
        int pretraining, int batchSize, long seed, boolean shuffled, Strategy strategy, int workers, Elastic elastic,
        int attempt, String secret, String transport, Duration livenessTimeout, Duration timeout,
        String checkpoints, long everySteps, long cacheBytes, SerializableConfiguration hadoop,
        ProgressAccumulator progress) implements Serializable {
    private static final long serialVersionUID = 1L;

    /**
     * The facts that the tasks of an ordinary stage cannot exchange through Spark.
     *
     * @param coordinator address of the coordinator on the driver
     * @param sizes number of rows of each partition
     */
    record Elastic(String coordinator, int[] sizes) implements Serializable {
        private static final long serialVersionUID = 1L;
    }

    /** Returns this for another attempt. */
    TrainingJob attempt(int number, Elastic newElastic) {
        return new TrainingJob(columns, heldOut, factory, settings, loss, optimizer, metrics, listeners, epochs,
                pretraining, batchSize, seed, shuffled, strategy, workers, newElastic, number, secret, transport,
                livenessTimeout, timeout, checkpoints, everySteps, cacheBytes, hadoop, progress);
    }

    ModelDescription model() {
        return new ModelDescription(factory, settings);
    }

    int tasks() {
        return workers + strategy.serverTasks();
    }

    /** Returns the configuration of the transport of a process on {@code host}. */
    TransportConfig transportAt(String host) {
        return TransportConfig.of(transport, Secret.ofHex(secret)).at(host, 0).livenessTimeout(livenessTimeout);
    }

    @Override
    public String toString() {
        return "training of " + factory + settings + " by " + workers + " workers, " + strategy;
    }
}
