package dev.starling.distributed.ps.server;

import org.agrona.DirectBuffer;

/** Receives a server's replies. Called only by the thread of the reply stage. */
@FunctionalInterface
interface ReplySink {
    /**
     * Queues a reply. Replies to workers that have left are accepted and dropped.
     *
     * @param buffer valid during the call only
     * @return false if there is no room now; the caller then offers the same reply again
     */
    boolean offer(int worker, DirectBuffer buffer, int length);
}
