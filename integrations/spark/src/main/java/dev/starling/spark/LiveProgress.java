package dev.starling.spark;

import dev.starling.nn.train.RemoteRun;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
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
import org.apache.spark.scheduler.TaskInfo;
import scala.jdk.javaapi.CollectionConverters;

/** Passes the progress that executors report on to the driver's listeners, over all attempts of a run. */
final class LiveProgress extends SparkListener {
    private static final int NO_STAGE = -1;

    private final long accumulator;
    private final Listeners listeners;
    private final BiConsumer<String, TaskInfo> failures;
    private volatile int tasksStarted;
    /** Running tasks of the stages before the one that trains. */
    private volatile int shuffling;
    private volatile Set<Integer> stagesBefore = Set.of();
    private volatile RuntimeException listenerFailure;
    private volatile String tag = "";
    private volatile int stage = NO_STAGE;
    private volatile RunNotes latest = RunNotes.NONE;
    /** When the driver noticed the first loss since the last start; 0 before. */
    private long lostMs;

    /**
     * The listeners.
     *
     * @param run receives steps and epochs
     * @param epoch receives the number of the epoch before the run receives its progress
     * @param pauses receives times without training
     */
    record Listeners(RemoteRun run, IntConsumer epoch, Consumer<Pause> pauses) { }

    /**
     * Creates a listener.
     *
     * @param failures receives the reason and the description of each failed task, in the listener bus's thread, which
     *     may run late
     */
    LiveProgress(long accumulator, Listeners listeners, BiConsumer<String, TaskInfo> failures) {
        this.accumulator = accumulator;
        this.listeners = listeners;
        this.failures = failures;
    }

    /** Resets the counts of tasks; from now on, only tasks of the job with this tag count. */
    void onAttempt(String jobTag) {
        tasksStarted = 0;
        shuffling = 0;
        stage = NO_STAGE;
        stagesBefore = Set.of();
        tag = jobTag;
    }

    /** Returns how many tasks have started in this attempt. */
    int tasksStarted() {
        return tasksStarted;
    }

    /** Returns whether tasks of this attempt still shuffle rows for those that train. */
    boolean isShuffling() {
        return shuffling > 0;
    }

    /** Returns the exception of a listener of the application, or {@code null}. */
    RuntimeException listenerFailure() {
        return listenerFailure;
    }

    @Override
    public void onJobStart(SparkListenerJobStart start) {
        String tags = start.properties() == null ? "" : start.properties().getProperty("spark.job.tags", "");
        if (List.of(tags.split(",")).contains(tag)) {
            // The last stage trains; those before it shuffle rows.
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
            shuffling++;
        }
    }

    @Override
    public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate update) {
        CollectionConverters.asJava(update.accumUpdates()).forEach(task ->
                CollectionConverters.asJava(task._4()).forEach(this::receive));
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd end) {
        if (stagesBefore.contains(end.stageId())) {
            shuffling--;
        }
        CollectionConverters.asJava(end.taskInfo().accumulables()).forEach(this::receive);
        if (end.stageId() == stage && end.reason() != Success$.MODULE$) {
            synchronized (this) {
                lostMs = lostMs == 0 ? end.taskInfo().finishTime() : lostMs;
            }
            failures.accept(end.reason() instanceof TaskFailedReason why ? why.toErrorString() : "",
                    end.taskInfo());
        }
    }

    private void receive(AccumulableInfo info) {
        if (info.id() == accumulator && info.update().isDefined() && info.update().get() instanceof RunNotes notes) {
            receive(notes);
        }
    }

    /** Passes progress on to the listeners, until one throws an exception. */
    synchronized void receive(RunNotes notes) {
        if (listenerFailure == null) {
            try {
                forward(notes);
            } catch (RuntimeException e) {
                listenerFailure = e;
            }
        }
    }

    private void forward(RunNotes notes) {
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
                onStart(before, start);
            }
        });
    }

    private void onStart(RunNotes before, RunNotes.Start start) {
        boolean measured = start.pausedNs() >= 0;
        // A start that is reported after the loss may have happened before it.
        if (measured || lostMs > 0 && start.atMs() >= lostMs) {
            RunNotes.Step last = before.steps().get(0);
            long lastStep = measured ? start.step() - 1 : last == null ? 0 : last.step();
            listeners.pauses().accept(new Pause(lastStep, start.step(), start.workers(), measured
                    ? Duration.ofNanos(start.pausedNs()) : Duration.ofMillis(start.atMs() - lostMs)));
            lostMs = 0;
        }
    }
}
