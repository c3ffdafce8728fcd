package dev.starling.nn.serve;

import java.time.Duration;

/**
 * What a {@link Predictor} has done since it was made. Latencies are those of answered requests, from the call to the
 * result, and rounded up by at most an eighth.
 *
 * @param answered requests with a result
 * @param refused requests that found the queue full
 * @param timedOut requests without a result at their deadline
 * @param failed requests for which the model threw an exception
 * @param batches forward passes
 * @param p50 the median latency
 * @param p99 the latency that 99 of 100 requests do not exceed
 * @param longest the longest latency
 */
public record PredictorStats(long answered, long refused, long timedOut, long failed, long batches, Duration p50,
        Duration p99, Duration longest) {
    /** Returns the mean number of answered requests in a batch, or 0 before the first. */
    public double meanBatch() {
        return batches == 0 ? 0 : (double) answered / batches;
    }
}
