package dev.starling.distributed.collective;

import org.agrona.DirectBuffer;

/**
 * A way to do collectives, one at a time; keeps its memory from one to the next. A state machine without waiting,
 * confined to the thread that works for the group.
 */
interface Algorithm extends AutoCloseable {
    /** Begins a collective; only when none is under way. */
    void begin(CollectiveCall call, SymmetricMemory memory, long offset);

    /**
     * Gets on with it; returns the amount of work done.
     *
     * @throws RuntimeException if another rank called for something else
     */
    int doWork();

    /** Returns whether the collective begun last is done. */
    boolean isDone();

    /** Takes a message of a rank's same algorithm, perhaps for the collective after this one. */
    default void onMessage(int from, DirectBuffer buffer, int offset, int length) { }

    /** Learns that a rank's put has arrived. */
    default void onPut(int from, long immediate) { }

    /** Returns a rank that has not come yet, or -1. */
    int awaited();

    @Override
    default void close() { }
}
