package dev.starling.spark;

import java.util.UUID;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;

/** Calls whose jobs end when the waiting thread is interrupted; Spark itself lets such jobs continue. */
final class EndedByInterrupt {
    private EndedByInterrupt() {
    }

    /**
     * Returns the result of {@code work}.
     *
     * @throws SparkJobException if a job of {@code work} failed or was cancelled, or if the thread was interrupted
     */
    static <T> T call(SparkContext context, Supplier<T> work) {
        String tag = "starling-" + UUID.randomUUID();
        context.addJobTag(tag);
        try {
            return work.get();
        } catch (Exception e) {
            // Spark throws checked exceptions without declaring them.
            if (e instanceof InterruptedException) {
                if (!context.isStopped()) {
                    context.cancelJobsWithTag(tag, "the thread that waits for the job was interrupted");
                }
                Thread.currentThread().interrupt();
                throw new SparkJobException("interrupted while rows were read; the job is cancelled", e);
            } else if (e instanceof SparkException) {
                throw JobWatch.failure(e);
            }
            throw e;
        } finally {
            context.removeJobTag(tag);
        }
    }
}
