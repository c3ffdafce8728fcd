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

    private record Check(String subject, Duration timeout, String remedy, long startNs,
            FutureTask<List<Finding>> task) {
    }

    /**
     * Starts a check in a thread of its own. A check that hangs ends with the process.
     *
     * @param remedy for a check that does not finish in time
     */
    void start(String subject, Duration timeout, String remedy, Callable<List<Finding>> check) {
        FutureTask<List<Finding>> task = new FutureTask<>(check);
        checks.add(new Check(subject, timeout, remedy, System.nanoTime(), task));
        ThreadException.start(Thread.ofPlatform().daemon().name("starling-doctor-" + subject).unstarted(task));
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
