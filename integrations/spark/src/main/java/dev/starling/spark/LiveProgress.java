package dev.starling.spark;

import dev.starling.nn.train.RemoteRun;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import java.util.function.ObjIntConsumer;
import java.util.stream.Collectors;
import org.apache.spark.Success$;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import scala.jdk.javaapi.CollectionConverters;

/** Passes the progress that executors report to the driver's listeners as it arrives, over all attempts. */
final class LiveProgress extends SparkListener {
    private static final int NO_STAGE = -1;

    private final long accumulator;
    private final Listeners listeners;
    private final ObjIntConsumer<String> failures;
    private volatile int tasksStarted;
    /** Running tasks of the stages before the one that trains. */
    private volatile int moving;
    private volatile Set<Integer> stagesBefore = Set.of();
    private volatile RuntimeException broken;
    private volatile String tag = "";
    private volatile int stage = NO_STAGE;
    private volatile RunNotes latest = RunNotes.NONE;
    /** When the driver noticed the first loss since the last start; 0 before. */
    private long lostMs;

    /**
     * The receivers.
     *
     * @param run of steps and epochs
     * @param epoch of the number of the epoch whose progress the run receives next
     * @param pauses of times without training
     */
    record Listeners(RemoteRun run, IntConsumer epoch, Consumer<Pause> pauses) { }

    /**
     * Makes a listener.
     *
     * @param failures receives the reason and the partition of each failed task, in the listener bus's thread
     */
    LiveProgress(long accumulator, Listeners listeners, ObjIntConsumer<String> failures) {
        this.accumulator = accumulator;
        this.listeners = listeners;
        this.failures = failures;
    }

    /** Forgets how many tasks have started; from now on those of the job with this tag count. */
    void attemptBegins(String jobTag) {
        tasksStarted = 0;
        moving = 0;
        stage = NO_STAGE;
        stagesBefore = Set.of();
        tag = jobTag;
    }

    /** Returns how many tasks have started in this attempt. */
    int tasksStarted() {
        return tasksStarted;
    }

    /** Returns whether tasks of this attempt move rows for those that train. */
    boolean isMoving() {
        return moving > 0;
    }

    /** Returns what a listener of the application threw, or {@code null}. */
    RuntimeException broken() {
        return broken;
    }

    @Override
    public void onJobStart(SparkListenerJobStart start) {
        String tags = start.properties() == null ? "" : start.properties().getProperty("spark.job.tags", "");
        if (List.of(tags.split(",")).contains(tag)) {
            // The last stage trains; those before it move rows.
            Set<Integer> stages = CollectionConverters.asJava(start.stageInfos()).stream().map(StageInfo::stageId)
                    .collect(Collectors.toCollection(TreeSet::new));
            stage = stages.stream().max(Integer::compare).orElse(NO_STAGE);
            stages.remove(stage);
            stagesBefore = stages;
        }
    }

    @Override
    public void onTaskStart(SparkListenerTaskStart start) {
        if (start.stageId() == stage) {
            tasksStarted++;
        } else if (stagesBefore.contains(start.stageId())) {
            moving++;
        }
    }

    @Override
    public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate update) {
        CollectionConverters.asJava(update.accumUpdates()).forEach(task ->
                CollectionConverters.asJava(task._4()).forEach(this::take));
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd end) {
        if (stagesBefore.contains(end.stageId())) {
            moving--;
        }
        CollectionConverters.asJava(end.taskInfo().accumulables()).forEach(this::take);
        if (end.stageId() == stage && end.reason() != Success$.MODULE$) {
            synchronized (this) {
                lostMs = lostMs == 0 ? end.taskInfo().finishTime() : lostMs;
            }
            failures.accept(end.reason() instanceof TaskFailedReason why ? why.toErrorString() : "",
                    end.taskInfo().partitionId());
        }
    }

    private void take(AccumulableInfo info) {
        if (info.id() == accumulator && info.update().isDefined() && info.update().get() instanceof RunNotes notes) {
            take(notes);
        }
    }

    /** Passes new progress on, until a listener throws an exception. */
    synchronized void take(RunNotes notes) {
        if (broken == null) {
            try {
                hand(notes);
            } catch (RuntimeException e) {
                broken = e;
            }
        }
    }

    private void hand(RunNotes notes) {
        RunNotes before = latest;
        latest = before.and(notes);
        notes.epochs().forEach((number, numbers) -> {
            listeners.epoch().accept(number);
            listeners.run().epochEnded(numbers);
        });
        RunNotes.Step first = notes.steps().get(0);
        if (first != null) {
            listeners.epoch().accept((int) first.numbers()[0]);
            listeners.run().stepEnded(first.numbers());
        }
        notes.starts().forEach((number, start) -> {
            if (!before.starts().containsKey(number)) {
                started(before, start);
            }
        });
    }

    private void started(RunNotes before, RunNotes.Start start) {
        boolean measured = start.pausedNs() >= 0;
        // A start that is reported after the loss may have been before it.
        if (measured || lostMs > 0 && start.atMs() >= lostMs) {
            RunNotes.Step last = before.steps().get(0);
            long lastStep = measured ? start.step() - 1 : last == null ? 0 : last.step();
            listeners.pauses().accept(new Pause(lastStep, start.step(), start.workers(), measured
                    ? Duration.ofNanos(start.pausedNs()) : Duration.ofMillis(start.atMs() - lostMs)));
            lostMs = 0;
        }
    }
}
