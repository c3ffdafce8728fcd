package dev.starling.spark;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;

/**
 * Cancels a job whose tasks do not start in time: a barrier stage waits until all its slots are free, and other jobs
 * may hold them without a limit. Also cancels a job that has its result while tasks still run, and one whose
 * listener has failed. Confined to the thread that runs the job, except for its own thread.
 */
final class JobWatch implements AutoCloseable {
    private static final Duration CHECK_INTERVAL = Duration.ofMillis(200);
    private static final Duration MAX_LINGER = Duration.ofSeconds(5);
    private static final int REASON_LINES = 5;
    /** The beginning of Spark's message; elsewhere the word may come from the exception of a task. */
    private static final Pattern CANCELLED = Pattern.compile("(\\[\\w+] )?Job \\d+ cancelled");
    private static final String FAILED = "the job failed: ";

    private final SparkContext context;
    private final String tag = "starling-" + UUID.randomUUID();
    private final Thread thread;
    private volatile boolean closed;

    private JobWatch(SparkContext context, LiveProgress live, int tasks, Duration slotTimeout,
            BooleanSupplier finished) {
        this.context = context;
        context.addJobTag(tag);
        live.onAttempt(tag);
        thread = Thread.ofPlatform().daemon().name("starling-job-watch").start(() ->
                watch(live, tasks, slotTimeout, finished));
    }

    /**
     * Starts to watch the jobs of this thread.
     *
     * @param finished whether the job has its result, so that tasks must end soon
     */
    static JobWatch start(SparkContext context, LiveProgress live, int tasks, Duration slotTimeout,
            BooleanSupplier finished) {
        return new JobWatch(context, live, tasks, slotTimeout, finished);
    }

    private void watch(LiveProgress live, int tasks, Duration slotTimeout, BooleanSupplier finished) {
        long last = System.nanoTime();
        long waitedNs = 0;
        long finishedNs = 0;
        while (!closed && finishedNs < MAX_LINGER.toNanos()) {
            if (live.listenerFailure() != null) {
                cancel("a listener failed: " + live.listenerFailure());
                return;
            } else if (live.tasksStarted() < tasks && waitedNs > TimeUnit.NANOSECONDS.convert(slotTimeout)) {
                cancel("only " + live.tasksStarted() + " of " + tasks + " tasks started within "
                        + slotTimeout.toSeconds() + " s; other jobs hold the slots: wait for them, or ask for "
                        + "fewer with workers(n)");
                return;
            }
            try {
                Thread.sleep(CHECK_INTERVAL);
            } catch (InterruptedException e) {
                return;
            }
            long now = System.nanoTime();
            finishedNs += finished.getAsBoolean() ? now - last : 0;
            // While rows are shuffled, the tasks that train cannot start yet.
            waitedNs = live.isShuffling() ? 0 : waitedNs + now - last;
            last = now;
        }
        if (!closed) {
            cancel("training has ended; the job does not wait for a lost task");
        }
    }

    /** Cancels the job. */
    void cancel(String reason) {
        context.cancelJobsWithTag(tag, reason);
    }

    /** Returns the exception for the caller. */
    static SparkJobException failure(Exception e) {
        String message = String.valueOf(e.getMessage());
        return new SparkJobException(CANCELLED.matcher(message).lookingAt() ? "the job was cancelled: " + message
                : FAILED + reason(message), e);
    }

    /** Returns the part of Spark's message before the stack trace of a task: reason and exception. */
    private static String reason(String message) {
        return message.lines().takeWhile(line -> !line.startsWith("\tat ")).limit(REASON_LINES)
                .collect(Collectors.joining(" "));
    }

    /** Returns whether a job failed because a task was lost, so that another attempt may succeed. */
    static boolean isLostTask(SparkJobException e) {
        String message = String.valueOf(e.getMessage());
        return message.startsWith(FAILED) && message.contains("barrier");
    }

    @Override
    public void close() {
        closed = true;
        thread.interrupt();
        context.removeJobTag(tag);
    }
}
