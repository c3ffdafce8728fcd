package dev.starling.distributed.collective;

import java.lang.foreign.MemorySegment;

/** Bytes that one rank sends to another. */
final class Transfer {
    final boolean sending;
    final int peer;
    final int tag;
    final MemorySegment bytes;
    Task task;
    /** Bytes that were sent, or have come. */
    long done;
    /** Whether the receiver has been heard, or has said, that it waits. */
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
