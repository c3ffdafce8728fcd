package dev.starling.distributed.collective.call;

import org.agrona.DirectBuffer;

/**
 * An implementation of collectives, which runs one at a time and reuses its memory. A state machine that never waits,
 * confined to the thread that works for the group.
 */
public interface Algorithm extends AutoCloseable {
    /** Begins a collective; the previous one must be done. */
    void begin(CollectiveCall call, SymmetricMemory memory, long offset);

    /**
     * Advances the collective; returns the amount of work done.
     *
     * @throws RuntimeException if another rank called a different collective
     */
    int doWork();

    /** Returns whether the last collective is done. */
    boolean isDone();

    /** Handles a message of the same algorithm on another rank; it may belong to the next collective. */
    default void onMessage(int from, DirectBuffer buffer, int offset, int length) { }

    /** Handles the arrival of a rank's put. */
    default void onPut(int from, long immediate) { }

    /** Returns a rank for which the collective waits, or -1. */
    int awaited();

    @Override
    default void close() { }
}
