package dev.starling.spark;

import java.time.Duration;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;

/** How many tasks the cluster can run at once. */
final class Slots {
    private static final long POLL_MS = 200;

    private Slots() {
    }

    /** Returns the number now; executors that have not registered yet do not count. */
    static int of(SparkContext context) {
        ResourceProfile profile = context.resourceProfileManager().defaultResourceProfile();
        return context.maxNumConcurrentTasks(profile);
    }

    /**
     * Waits until there are enough.
     *
     * @throws SparkJobException if there are not in time
     */
    static void await(SparkContext context, int needed, Duration atMost) {
        long begin = System.nanoTime();
        int offered = of(context);
        while (offered < needed && System.nanoTime() - begin < atMost.toNanos()) {
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new SparkJobException("interrupted while waiting for " + needed + " slots", e);
            }
            offered = of(context);
        }
        if (offered < needed) {
            throw new SparkJobException("training needs " + needed + " tasks at once, and after " + atMost.toSeconds()
                    + " s the cluster offers " + offered + "; ask for fewer with workers(n), or give the application "
                    + "more executors or cores (spark.task.cpus is " + context.conf().get("spark.task.cpus", "1")
                    + ")");
        }
    }
}
