package dev.starling.distributed.bucket;

import java.time.Duration;

/**
 * Replaces the gradients of one bucket by their sums over all ranks, step after step. It begins while the backward pass
 * still runs and may need several exchanges, one after the other; the exchanges of different buckets overlap. All ranks
 * start the same collectives in the same order, and must end with the same bits. Confined to the training thread; a
 * step should allocate nothing.
 */
public interface BucketReduction extends AutoCloseable {
    /** Begins to reduce: all gradients of the bucket are in its memory. Must not wait for other ranks. */
    void start();

    /**
     * Waits for the exchange that was started last, and starts the next one or completes the reduction.
     *
     * @return whether another call must follow; the same on all ranks
     */
    boolean proceed(Duration timeout);

    /** Releases memory. If an exchange is pending, no collective accesses memory any more at the time of the call. */
    @Override
    default void close() {
    }
}
