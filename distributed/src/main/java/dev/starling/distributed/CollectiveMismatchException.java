package dev.starling.distributed;

/** Ranks of a group called different collectives, so none of them was carried out. */
public final class CollectiveMismatchException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int rank;
    private final int peer;

    /** Creates an exception from the calls of two ranks. */
    public CollectiveMismatchException(long sequence, int rank, String call, int peer, String peerCall) {
        super("collective " + sequence + " of the group: rank " + rank + " called " + call + ", rank " + peer
            + " called " + peerCall + "; call the same collectives in the same order on all ranks");
        this.rank = rank;
        this.peer = peer;
    }

    /** Creates an exception with the message of the rank that detected the mismatch. */
    public CollectiveMismatchException(int rank, int peer, String message) {
        super(message);
        this.rank = rank;
        this.peer = peer;
    }

    /** Returns the rank that detected the mismatch. */
    public int rank() {
        return rank;
    }

    /** Returns the rank whose call differs. */
    public int peer() {
        return peer;
    }
}
