package dev.starling.spark;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.spark.util.SerializableConfiguration;

/**
 * All that a task of a run has to know. It travels in Spark's closure, and so does the secret: in no configuration, and
 * in no text of this.
 *
 * @param workers tasks that train; those behind them serve
 * @param checkpoints address of a directory on a Hadoop file system, or {@code null}
 * @param everySteps between checkpoints; 0 for the end of each epoch
 * @param cacheBytes of rows that a task holds in memory
 */
record TrainingJob(Columns columns, String factory, Map<String, String> settings, Recipe<Loss> loss,
        OptimizerFactory optimizer, List<Recipe<Metric>> metrics, List<WorkerListenerFactory> listeners, int epochs,
        int batchSize, long seed, boolean shuffles, Strategy strategy, int workers, String secret, String transport,
        Duration silence, Duration patience, String checkpoints, long everySteps, long cacheBytes,
        SerializableConfiguration hadoop, ProgressAccumulator progress) implements Serializable {
    private static final long serialVersionUID = 1L;

    ModelDescription model() {
        return new ModelDescription(factory, settings);
    }

    int tasks() {
        return workers + strategy.serverTasks();
    }

    @Override
    public String toString() {
        return "training of " + factory + settings + " by " + workers + " workers, " + strategy;
    }
}
