package dev.starling.spark;

import java.time.Duration;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;

/**
 * Cancels a job whose tasks do not start in time: a barrier stage waits for all its slots at once, and other jobs may
 * hold them without a limit. Also cancels a job whose result is there while tasks still run, and one whose listener has
 * failed. Confined to the thread that runs the job, except for its own thread.
 */
final class JobWatch implements AutoCloseable {
    private static final Duration CHECKING = Duration.ofMillis(200);
    private static final Duration ENDING = Duration.ofSeconds(5);
    private static final int REASON_LINES = 5;

    private final SparkContext context;
    private final String tag = "starling-" + UUID.randomUUID();
    private final Thread thread;
    private volatile boolean closed;

    private JobWatch(SparkContext context, LiveProgress live, int tasks, Duration within, BooleanSupplier over) {
        this.context = context;
        context.addJobTag(tag);
        live.attemptBegins(tag);
        thread = Thread.ofPlatform().daemon().name("starling-job-watch").start(() ->
                watch(live, tasks, within, over));
    }

    /**
     * Starts to watch the jobs of this thread.
     *
     * @param over whether the result is there, so that tasks have little time left to end
     */
    static JobWatch start(SparkContext context, LiveProgress live, int tasks, Duration within, BooleanSupplier over) {
        return new JobWatch(context, live, tasks, within, over);
    }

    private void watch(LiveProgress live, int tasks, Duration within, BooleanSupplier over) {
        long present = System.nanoTime();
        long waitedNs = 0;
        long overNs = 0;
        while (!closed && overNs < ENDING.toNanos()) {
            if (live.broken() != null) {
                cancel("a listener failed: " + live.broken());
                return;
            } else if (live.tasksStarted() < tasks && waitedNs > within.toNanos()) {
                cancel("only " + live.tasksStarted() + " of " + tasks + " tasks started within " + within.toSeconds()
                        + " s; other jobs hold the slots: wait for them, or ask for fewer with workers(n)");
                return;
            }
            try {
                Thread.sleep(CHECKING);
            } catch (InterruptedException e) {
                return;
            }
            long now = System.nanoTime();
            overNs += over.getAsBoolean() ? now - present : 0;
            // While rows are moved, the tasks that train cannot start yet.
            waitedNs = live.isMoving() ? 0 : waitedNs + now - present;
            present = now;
        }
        if (!closed) {
            cancel("all steps are taken; the job does not wait for a task that was lost");
        }
    }

    /** Ends the job. */
    void cancel(String reason) {
        context.cancelJobsWithTag(tag, reason);
    }

    /** Returns the exception for the caller. */
    static SparkJobException failure(Exception e) {
        String message = String.valueOf(e.getMessage());
        return new SparkJobException(message.contains("cancelled") ? "the job was cancelled: " + message
                : "the job failed: " + reason(message), e);
    }

    /** Returns what Spark says before the stack of a task: its own words, and the task's exception. */
    private static String reason(String message) {
        return message.lines().takeWhile(line -> !line.startsWith("\tat ")).limit(REASON_LINES)
                .collect(Collectors.joining(" "));
    }

    /** Tells whether a job failed because a task did, which another attempt may cure. */
    static boolean isLostTask(SparkJobException e) {
        String message = String.valueOf(e.getMessage());
        return e.getCause() != null && message.contains("barrier") && !message.contains("cancelled");
    }

    @Override
    public void close() {
        closed = true;
        thread.interrupt();
        context.removeJobTag(tag);
    }
}
