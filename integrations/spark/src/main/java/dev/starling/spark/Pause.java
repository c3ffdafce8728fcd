package dev.starling.spark;

import java.time.Duration;
import java.util.Locale;

/**
 * A time without training, because a worker was lost or has joined.
 *
 * @param lastStep the last step before the pause of which the driver was notified
 * @param nextStep the first step after it; not greater than {@code lastStep} if training resumes from a checkpoint
 * @param workers number of workers after it
 * @param length from the loss, as noticed by the driver, to the end of the next step; if elastic, between two steps
 */
public record Pause(long lastStep, long nextStep, int workers, Duration length) {
    /** Describes the pause in one sentence. */
    @Override
    public String toString() {
        return String.format(Locale.ROOT, "training paused for %.2f s after step %d; it resumes at step %d with %d "
                + "workers", length.toNanos() / 1e9, lastStep, nextStep, workers);
    }
}
