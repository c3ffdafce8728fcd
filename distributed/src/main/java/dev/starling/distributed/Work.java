package dev.starling.distributed;

import java.time.Duration;

/**
 * A collective, or a message, that goes on by itself. Made once, it can be started again and again, on all ranks in
 * the same order; that costs no memory.
 */
public interface Work {
    /**
     * Begins, or begins again.
     *
     * @throws DistributedException if it is under way
     * @throws PeerLostException if the epoch has ended
     */
    void start();

    /** Returns whether it is done, well or not. */
    boolean isDone();

    /**
     * Waits until it is done.
     *
     * @throws PeerLostException if a member was lost
     * @throws MembershipChangedException if the epoch ended for another reason
     * @throws CollectiveMismatchException if another rank called for something else
     * @throws DistributedException if it took longer; names the ranks that have not come
     */
    void await(Duration atMost);

    /** Begins, and waits: costs less than one after the other, for no other thread has to be told. */
    void run(Duration atMost);
}
