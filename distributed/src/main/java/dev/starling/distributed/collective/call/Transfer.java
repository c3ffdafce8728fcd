package dev.starling.distributed.collective.call;

import java.lang.foreign.MemorySegment;

/** Bytes that one rank sends to another. */
public final class Transfer extends Task {
    public final boolean sending;
    public final int peer;
    public final int tag;
    public final MemorySegment bytes;
    /** Number of bytes sent or received. */
    private long moved;
    private boolean agreed;

    public Transfer(Runner runner, boolean sending, int peer, int tag, MemorySegment bytes) {
        super(runner);
        this.sending = sending;
        this.peer = peer;
        this.tag = tag;
        this.bytes = bytes;
    }

    public void restart() {
        moved = 0;
        agreed = false;
    }

    /** Returns the number of bytes sent or received. */
    public long moved() {
        return moved;
    }

    /** Returns the number of bytes that are left. */
    public long left() {
        return bytes.byteSize() - moved;
    }

    public void advance(int length) {
        moved += length;
    }

    /** Returns whether the receiver has sent its WANT, and the sender has matched it. */
    public boolean isAgreed() {
        return agreed;
    }

    public void agreed(boolean isAgreed) {
        agreed = isAgreed;
    }

    @Override
    public String toString() {
        return (sending ? "sending " : "receiving ") + bytes.byteSize() + " bytes " + (sending ? "to" : "from")
                + " rank " + peer + " with tag " + tag;
    }
}
