package dev.starling.spark.search;

import dev.starling.nn.search.Trial;
import dev.starling.nn.search.TrialTraining;
import dev.starling.spark.PackedRows;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;

/**
 * Runs the trials of one task concurrently, each in a thread; they share the task's cores.
 *
 * @param rows all rows, packed, in the same order for each trial
 * @param trainingRows number of rows, the first ones, to train on; the others are held out
 * @param data digest of the rows
 * @param training runs trials
 * @param results directory of saved results, or {@code null}
 */
record TrialTask(Broadcast<PackedRows> rows, int trainingRows, String data, TrialTraining training, String results,
        SerializableConfiguration hadoop) implements Serializable {
    private static final long serialVersionUID = 1L;

    List<Trial> run(TaskContext context, Iterator<Trial.Plan> plans) {
        List<Trial.Plan> all = new ArrayList<>();
        plans.forEachRemaining(all::add);
        List<Trial> trials = new ArrayList<>();
        PackedRows packed = rows.value();
        training.run(all, packed.slice(0, trainingRows), packed.slice(trainingRows, packed.size()), data,
                Math.max(1, all.size()), Math.max(1, context.cpus() / Math.max(1, all.size())), results == null ? null
                : new SharedResults(results, hadoop.value()), context::killTaskIfInterrupted, trials::add);
        return trials;
    }

    /** The function that Spark calls in each task. */
    static final class OfPartition extends AbstractFunction2<TaskContext, scala.collection.Iterator<Trial.Plan>,
            List<Trial>> implements Serializable {
        private static final long serialVersionUID = 1L;
        private final TrialTask task;

        OfPartition(TrialTask task) {
            this.task = task;
        }

        @Override
        public List<Trial> apply(TaskContext context, scala.collection.Iterator<Trial.Plan> plans) {
            return task.run(context, CollectionConverters.asJava(plans));
        }
    }
}
