package dev.starling.spark;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;

/** The number of tasks that the cluster can run concurrently. */
final class Slots {
    private static final long POLL_MS = 200;

    private Slots() {
    }

    /** Returns the current number; executors that have not registered yet do not count. */
    static int of(SparkContext context) {
        ResourceProfile profile = context.resourceProfileManager().defaultResourceProfile();
        return context.maxNumConcurrentTasks(profile);
    }

    /**
     * Waits until there are enough slots.
     *
     * @throws SparkJobException if there are too few after {@code timeout}
     */
    static void await(SparkContext context, int needed, Duration timeout) {
        long begin = System.nanoTime();
        int offered = of(context);
        while (offered < needed && System.nanoTime() - begin < TimeUnit.NANOSECONDS.convert(timeout)) {
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new SparkJobException("interrupted while waiting for " + needed + " slots", e);
            }
            offered = of(context);
        }
        if (offered < needed) {
            throw new SparkJobException("training needs " + needed + " concurrent tasks, and after "
                    + timeout.toSeconds() + " s the cluster offers " + offered + "; ask for fewer with workers(n), or "
                    + "give the application more executors or cores (spark.task.cpus is "
                    + context.conf().get("spark.task.cpus", "1") + ")");
        }
    }
}
