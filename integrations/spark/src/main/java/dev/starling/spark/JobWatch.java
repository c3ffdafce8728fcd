package dev.starling.spark;

import java.time.Duration;
import java.util.UUID;
import org.apache.spark.SparkContext;

/**
 * Cancels a job whose tasks do not start in time: a barrier stage waits for all its slots at once, and other jobs may
 * hold them for ever. Confined to the thread that runs the job, but for its own thread.
 */
final class JobWatch implements AutoCloseable {
    private final SparkContext context;
    private final String tag = "starling-" + UUID.randomUUID();
    private final Thread thread;
    private volatile boolean closed;

    private JobWatch(SparkContext context, LiveProgress live, int tasks, Duration within, Duration every) {
        this.context = context;
        context.addJobTag(tag);
        thread = Thread.ofPlatform().daemon().name("starling-job-watch").start(() ->
                watch(live, tasks, within, every));
    }

    static JobWatch start(SparkContext context, LiveProgress live, int tasks, Duration within, Duration every) {
        return new JobWatch(context, live, tasks, within, every);
    }

    private void watch(LiveProgress live, int tasks, Duration within, Duration every) {
        long begin = System.nanoTime();
        while (!closed && live.tasksStarted() < tasks) {
            if (System.nanoTime() - begin > within.toNanos()) {
                cancel("only " + live.tasksStarted() + " of " + tasks + " tasks started within " + within.toSeconds()
                        + " s; other jobs hold the slots: wait for them, or ask for fewer with workers(n)");
                return;
            }
            try {
                Thread.sleep(every);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Ends the job. */
    void cancel(String reason) {
        context.cancelJobsWithTag(tag, reason);
    }

    /** Returns what a job's failure means to the caller. */
    static SparkJobException failure(Exception e) {
        String message = String.valueOf(e.getMessage());
        return new SparkJobException(message.contains("cancelled") ? "the job was cancelled: " + message
                : "the job failed: " + message.lines().findFirst().orElse(""), e);
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
