package dev.starling.spark.search;

import dev.starling.nn.search.Trial;
import dev.starling.nn.search.TrialTraining;
import dev.starling.spark.PackedRows;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.Utils;
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

    ArrayList<Trial> run(TaskContext context, List<Trial.Plan> all) {
        ArrayList<Trial> trials = new ArrayList<>();
        PackedRows packed = rows.value();
        training.run(all, packed.slice(0, trainingRows), packed.slice(trainingRows, packed.size()), data,
                Math.max(1, all.size()), Math.max(1, context.cpus() / Math.max(1, all.size())), results == null ? null
                : new SharedResults(results, hadoop.value()), context::killTaskIfInterrupted, trials::add);
        return trials;
    }

    /**
     * The function that Spark calls in each task, with the numbers of its plans. Java serialises plans, in the closure,
     * and results, to bytes: Spark may be configured to serialise data by Kryo, which cannot read records.
     */
    static final class OfPartition extends AbstractFunction2<TaskContext, scala.collection.Iterator<Integer>, byte[]>
            implements Serializable {
        private static final long serialVersionUID = 1L;
        private final TrialTask task;
        private final Trial.Plan[] plans;

        OfPartition(TrialTask task, List<Trial.Plan> plans) {
            this.task = task;
            this.plans = plans.toArray(Trial.Plan[]::new);
        }

        @Override
        public byte[] apply(TaskContext context, scala.collection.Iterator<Integer> numbers) {
            List<Trial.Plan> own = new ArrayList<>();
            CollectionConverters.asJava(numbers).forEachRemaining(number -> own.add(plans[number]));
            return Utils.serialize(task.run(context, own));
        }

        /** Returns what {@link #apply} returned. */
        static List<Trial> trials(byte[] result) {
            return Utils.<ArrayList<Trial>>deserialize(result, Trial.class.getClassLoader());
        }
    }
}
