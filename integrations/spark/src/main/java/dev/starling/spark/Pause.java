package dev.starling.spark;

import java.time.Duration;
import java.util.Locale;

/**
 * A time in which training stood still, because a worker was lost or has joined.
 *
 * @param lastStep the last step that the driver knew of before
 * @param nextStep the first step after it; not greater where training resumes from a checkpoint
 * @param workers how many train together after it
 * @param length from the loss, as the driver noticed it, to the end of the next step; between two steps, if elastic
 */
public record Pause(long lastStep, long nextStep, int workers, Duration length) {
    /** Describes the pause in one sentence. */
    @Override
    public String toString() {
        return String.format(Locale.ROOT, "training paused for %.2f s after step %d; it resumes at step %d with %d "
                + "workers", length.toNanos() / 1e9, lastStep, nextStep, workers);
    }
}
