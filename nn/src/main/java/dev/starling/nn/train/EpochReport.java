package dev.starling.nn.train;

/**
 * What came of a pass over the data.
 *
 * @param epoch its number, from 0
 * @param step how many steps the run has taken
 * @param training means over the training batches, each measured before its step; of all ranks that share batches
 * @param heldOut means over the held-out data, or {@code null} if there is none, or another rank measures it
 * @param seconds that training took, without evaluation
 * @param itemsPerSecond examples trained on per second, on all ranks that share batches
 */
public record EpochReport(int epoch, long step, Scores training, Scores heldOut, double seconds,
        double itemsPerSecond) { }
