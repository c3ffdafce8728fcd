package dev.starling.nn.train;

import java.util.Locale;
import java.util.Optional;

/**
 * The results of one pass over the data.
 *
 * @param epoch its number, from 1
 * @param step number of steps that the run has completed
 * @param training means over the training batches, each evaluated before its step; on all ranks that share batches
 * @param heldOut means over the held-out data; empty if there is none or another rank evaluates it
 * @param seconds duration of the training, without evaluation
 * @param itemsPerSecond training examples per second, on all ranks that share batches
 */
public record EpochReport(int epoch, long step, Scores training, Optional<Scores> heldOut, double seconds,
        double itemsPerSecond) {
    /** Returns for example {@code epoch 2  loss 0.1234  accuracy 97.10 %  held-out loss 0.2  (600 steps, 1.2 s)}. */
    @Override
    public String toString() {
        return "epoch " + epoch + "  " + training + heldOut.map(scores -> "  held-out " + scores).orElse("")
                + String.format(Locale.ROOT, "  (%d steps, %.1f s)", step, seconds);
    }
}
