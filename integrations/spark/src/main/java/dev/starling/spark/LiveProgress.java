package dev.starling.spark;

import dev.starling.nn.train.RemoteRun;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import scala.jdk.javaapi.CollectionConverters;

/** Hands what executors say of a run to the driver's listeners as it arrives. */
final class LiveProgress extends SparkListener {
    private final long accumulator;
    private final String name;
    private final RemoteRun run;
    private volatile int tasksStarted;
    private volatile RunNotes latest = RunNotes.NONE;

    LiveProgress(long accumulator, String name, RemoteRun run) {
        this.accumulator = accumulator;
        this.name = name;
        this.run = run;
    }

    /** Returns how many tasks have started since Spark runs this job alone. */
    int tasksStarted() {
        return tasksStarted;
    }

    /** Returns what was heard last of all workers. */
    RunNotes latest() {
        return latest;
    }

    @Override
    public void onTaskStart(SparkListenerTaskStart start) {
        tasksStarted++;
    }

    @Override
    public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate update) {
        CollectionConverters.asJava(update.accumUpdates()).forEach(task ->
                CollectionConverters.asJava(task._4()).forEach(this::take));
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd end) {
        CollectionConverters.asJava(end.taskInfo().accumulables()).forEach(this::take);
    }

    private void take(AccumulableInfo info) {
        if (info.id() == accumulator && info.update().isDefined() && info.update().get() instanceof RunNotes notes) {
            take(notes);
        }
    }

    synchronized void take(RunNotes notes) {
        latest = latest.and(notes);
        notes.epochs().values().forEach(run::epochEnded);
        double[] first = notes.steps().get(0);
        if (first != null) {
            run.stepEnded(first);
        }
    }

    @Override
    public String toString() {
        return name;
    }
}
