package dev.starling.transport;

/** What a transport saw since it was opened. Written by the transport's thread, readable by all. */
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

    /** Returns the number of messages that were no frame of this version, or of a wrong length. */
    public long refusedFrames() {
        return refusedFrames;
    }

    /** Returns the number of frames whose checksum did not fit. */
    public long refusedChecksums() {
        return refusedChecksums;
    }

    /** Returns the number of frames of a session that is not, or no longer, open. */
    public long refusedSessions() {
        return refusedSessions;
    }

    /** Returns the number of frames that came a second time or out of order. */
    public long refusedReplays() {
        return refusedReplays;
    }

    /** Returns how often somebody did not prove that it knows the secret. */
    public long refusedStrangers() {
        return refusedStrangers;
    }

    /** Returns the number of puts outside of a region, or to none: one that was closed, or never was. */
    public long refusedWrites() {
        return refusedWrites;
    }

    /** Returns the number of peers that fell silent or broke the rules. */
    public long lostPeers() {
        return lostPeers;
    }

    /** Returns how much of all kinds was refused. */
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
