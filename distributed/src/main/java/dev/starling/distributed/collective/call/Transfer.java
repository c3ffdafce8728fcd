package dev.starling.distributed.collective.call;

import java.lang.foreign.MemorySegment;

/** Bytes that one rank sends to another. */
public final class Transfer {
    public final boolean sending;
    public final int peer;
    public final int tag;
    public final MemorySegment bytes;
    private Task task;
    /** Number of bytes sent or received. */
    private long done;
    private boolean agreed;
    private Transfer next;

    public Transfer(boolean sending, int peer, int tag, MemorySegment bytes) {
        this.sending = sending;
        this.peer = peer;
        this.tag = tag;
        this.bytes = bytes;
    }

    /** Sets the task that ends with this transfer. */
    void belongTo(Task owner) {
        task = owner;
    }

    public Task task() {
        return task;
    }

    public void restart() {
        done = 0;
        agreed = false;
    }

    /** Returns the number of bytes sent or received. */
    public long done() {
        return done;
    }

    public void advance(int length) {
        done += length;
    }

    /** Returns whether the receiver has sent its WANT, and the sender has matched it. */
    public boolean isAgreed() {
        return agreed;
    }

    public void agreed(boolean isAgreed) {
        agreed = isAgreed;
    }

    /** Returns the transfer that follows in a queue, or {@code null}. */
    public Transfer next() {
        return next;
    }

    public void next(Transfer following) {
        next = following;
    }

    @Override
    public String toString() {
        return (sending ? "sending " : "receiving ") + bytes.byteSize() + " bytes " + (sending ? "to" : "from")
                + " rank " + peer + " with tag " + tag;
    }
}
