package dev.starling.distributed.collective;

import java.lang.foreign.MemorySegment;

/** Bytes that one rank sends to another. */
final class Transfer {
    final boolean sending;
    final int peer;
    final int tag;
    final MemorySegment bytes;
    Task task;
    /** Number of bytes sent or received. */
    long done;
    /** Whether the receiver has sent its WANT, and the sender has matched it. */
    boolean agreed;
    Transfer next;

    Transfer(boolean sending, int peer, int tag, MemorySegment bytes) {
        this.sending = sending;
        this.peer = peer;
        this.tag = tag;
        this.bytes = bytes;
    }

    @Override
    public String toString() {
        return (sending ? "sending " : "receiving ") + bytes.byteSize() + " bytes " + (sending ? "to" : "from")
                + " rank " + peer + " with tag " + tag;
    }
}
