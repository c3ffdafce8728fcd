package dev.starling.distributed;

import java.time.Duration;

/**
 * A collective, or a transfer between two ranks, that runs asynchronously. It can be started repeatedly, on all ranks
 * in the same order; a start allocates nothing.
 */
public interface Work {
    /**
     * Starts the work, or starts it again.
     *
     * @throws DistributedException if the work is in progress
     * @throws PeerLostException if the epoch has ended
     */
    void start();

    /** Returns whether the work has ended, successfully or not. */
    boolean isDone();

    /**
     * Waits until the work is done.
     *
     * @throws PeerLostException if a member was lost
     * @throws MembershipChangedException if the epoch ended for another reason
     * @throws CollectiveMismatchException if another rank called a different collective
     * @throws DistributedException if the work took longer than {@code atMost}, where the message names a missing rank,
     *     or has never been started
     */
    void await(Duration atMost);

    /** Starts the work and waits for it. Cheaper than {@link #start} and {@link #await}: it wakes no other thread. */
    void run(Duration atMost);
}
