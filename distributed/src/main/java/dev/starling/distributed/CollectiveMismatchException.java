package dev.starling.distributed;

/** Ranks of a group called for different collectives, so that none of them could be done. */
public final class CollectiveMismatchException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int rank;
    private final int peer;

    /** Makes an exception of what two ranks called for. */
    public CollectiveMismatchException(long sequence, int rank, String call, int peer, String peerCall) {
        super("collective " + sequence + " of the group: rank " + rank + " calls for " + call + ", rank " + peer
            + " for " + peerCall + "; let all ranks call for the same collectives in the same order");
        this.rank = rank;
        this.peer = peer;
    }

    /** Makes an exception of what was noticed somewhere. */
    public CollectiveMismatchException(int rank, int peer, String message) {
        super(message);
        this.rank = rank;
        this.peer = peer;
    }

    /** Returns the rank that noticed it. */
    public int rank() {
        return rank;
    }

    /** Returns the rank that called for something else. */
    public int peer() {
        return peer;
    }
}
