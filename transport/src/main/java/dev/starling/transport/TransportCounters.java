package dev.starling.transport;

/**
 * Counts of what a transport sent, received and refused since it was opened. Written by the transport's thread,
 * readable by all.
 */
public final class TransportCounters {
    volatile long sent;
    volatile long received;
    volatile long refusedFrames;
    volatile long refusedChecksums;
    volatile long refusedSessions;
    volatile long refusedReplays;
    volatile long refusedStrangers;
    volatile long refusedWrites;
    volatile long lostPeers;

    TransportCounters() { }

    /** Returns the number of frames sent. */
    public long sent() {
        return sent;
    }

    /** Returns the number of frames received and accepted. */
    public long received() {
        return received;
    }

    /** Returns the number of messages that were not a frame of this version, or had a wrong length. */
    public long refusedFrames() {
        return refusedFrames;
    }

    /** Returns the number of frames with a wrong checksum, or that are not authentic. */
    public long refusedChecksums() {
        return refusedChecksums;
    }

    /** Returns the number of frames of a session that is not, or no longer, open. */
    public long refusedSessions() {
        return refusedSessions;
    }

    /** Returns the number of frames that arrived a second time or out of order. */
    public long refusedReplays() {
        return refusedReplays;
    }

    /** Returns how often a process failed to prove that it has the secret, or had another protection of frames. */
    public long refusedStrangers() {
        return refusedStrangers;
    }

    /** Returns the number of puts outside of a region, or to a region that was closed or never existed. */
    public long refusedWrites() {
        return refusedWrites;
    }

    /** Returns the number of peers that were silent for too long, closed the connection or violated the protocol. */
    public long lostPeers() {
        return lostPeers;
    }

    /** Returns the number of refusals of all kinds. */
    public long refused() {
        return refusedFrames + refusedChecksums + refusedSessions + refusedReplays + refusedStrangers + refusedWrites;
    }

    @Override
    public String toString() {
        return "sent " + sent + ", received " + received + ", refused: " + refusedFrames + " frames, "
                + refusedChecksums + " checksums, " + refusedSessions + " sessions, " + refusedReplays + " replays, "
                + refusedStrangers + " strangers, " + refusedWrites + " writes; lost " + lostPeers + " peers";
    }
}
