package dev.starling.samples;

import dev.starling.errors.ThreadException;
import dev.starling.samples.Finding.Verdict;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Checks that run concurrently, each with a deadline, so that a check that hangs does not delay the report. */
final class Diagnosis {
    private final List<Check> checks = new ArrayList<>();

    /** How long unfinished checks have, once all is reported, to delete the files that they have made. */
    private static final Duration CLEAN_UP = Duration.ofSeconds(2);

    private record Check(String subject, Duration timeout, String remedy, long startNs,
            FutureTask<List<Finding>> task, Thread thread) {
    }

    /**
     * Starts a check in a thread of its own. A check that hangs ends with the process.
     *
     * @param remedy for a check that does not finish in time
     */
    void start(String subject, Duration timeout, String remedy, Callable<List<Finding>> check) {
        FutureTask<List<Finding>> task = new FutureTask<>(check);
        Thread thread = Thread.ofPlatform().daemon().name("starling-doctor-" + subject).unstarted(task);
        checks.add(new Check(subject, timeout, remedy, System.nanoTime(), task, thread));
        ThreadException.start(thread);
    }

    /** Waits a moment for checks that did not finish in time: a process that ends in their midst leaves files. */
    void finish() throws InterruptedException {
        long end = System.nanoTime() + CLEAN_UP.toNanos();
        for (Check check : checks) {
            long leftNs = end - System.nanoTime();
            if (leftNs > 0) {
                check.thread.join(Duration.ofNanos(leftNs));
            }
        }
    }

    /**
     * Returns the findings of all checks in the order in which they were started, with a note for each unfinished
     * check.
     */
    List<Finding> findings() {
        List<Finding> findings = new ArrayList<>();
        for (Check check : checks) {
            long leftNs = check.timeout.toNanos() - (System.nanoTime() - check.startNs);
            try {
                findings.addAll(check.task.get(Math.max(0, leftNs), TimeUnit.NANOSECONDS));
            } catch (TimeoutException e) {
                findings.add(new Finding(check.subject, Verdict.NOTE, "unknown: the check did not finish within "
                        + check.timeout.toMillis() + " ms", check.remedy));
            } catch (ExecutionException e) {
                throw new IllegalStateException("the check of " + check.subject + " failed: " + e.getCause(),
                        e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return findings;
            }
        }
        return findings;
    }
}
