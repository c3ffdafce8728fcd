package dev.starling.nn.train;

import org.jspecify.annotations.Nullable;

/**
 * The results of one pass over the data.
 *
 * @param epoch its number, from 0
 * @param step number of steps that the run has completed
 * @param training means over the training batches, each evaluated before its step; on all ranks that share batches
 * @param heldOut means over the held-out data, or {@code null} if there is none or another rank evaluates it
 * @param seconds duration of the training, without evaluation
 * @param itemsPerSecond training examples per second, on all ranks that share batches
 */
public record EpochReport(int epoch, long step, Scores training, @Nullable Scores heldOut, double seconds,
        double itemsPerSecond) { }
