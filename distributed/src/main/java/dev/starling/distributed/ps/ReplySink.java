package dev.starling.distributed.ps;

import org.agrona.DirectBuffer;

/** Takes a server's answers. Called from the thread of the reply stage alone. */
@FunctionalInterface
interface ReplySink {
    /**
     * Takes an answer.
     *
     * @param buffer is valid during the call only
     * @return false if there is no room now; the same answer comes again then. An answer to who is gone is taken, and
     *     dropped
     */
    boolean offer(int worker, DirectBuffer buffer, int length);
}
