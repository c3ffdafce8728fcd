package dev.starling.samples;

import dev.starling.samples.Finding.Verdict;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Things looked at side by side, each for no longer than its deadline: one that hangs keeps nobody waiting. */
final class Examination {
    private final List<Look> looks = new ArrayList<>();

    private record Look(String subject, Duration atMost, String remedy, long begunNs, FutureTask<List<Finding>> task) {
    }

    /**
     * Begins to look at something, in a thread of its own, which ends with the process if it hangs.
     *
     * @param remedy for what takes too long
     */
    void begin(String subject, Duration atMost, String remedy, Callable<List<Finding>> look) {
        FutureTask<List<Finding>> task = new FutureTask<>(look);
        looks.add(new Look(subject, atMost, remedy, System.nanoTime(), task));
        Thread.ofPlatform().daemon().name("starling-doctor-" + subject).start(task);
    }

    /** Returns what was found, in the order in which it was begun; a note for each thing that took too long. */
    List<Finding> findings() {
        List<Finding> findings = new ArrayList<>();
        for (Look look : looks) {
            long leftNs = look.atMost.toNanos() - (System.nanoTime() - look.begunNs);
            try {
                findings.addAll(look.task.get(Math.max(0, leftNs), TimeUnit.NANOSECONDS));
            } catch (TimeoutException e) {
                findings.add(new Finding(look.subject, Verdict.NOTE, "not known: no answer within "
                        + look.atMost.toMillis() + " ms", look.remedy));
            } catch (ExecutionException e) {
                throw new IllegalStateException(look.subject + " cannot be looked at: " + e.getCause(), e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return findings;
            }
        }
        return findings;
    }
}
