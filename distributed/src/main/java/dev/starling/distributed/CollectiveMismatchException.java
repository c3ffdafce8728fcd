package dev.starling.distributed;

/** Ranks of a group called different collectives, so none of them was carried out. */
public final class CollectiveMismatchException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int detector;

    /** Creates an exception from the calls of two ranks. */
    public CollectiveMismatchException(long sequence, int rank, String call, int peer, String peerCall) {
        super(peer, "collective " + sequence + " of the group: rank " + rank + " called " + call + ", rank " + peer
            + " called " + peerCall + "; call the same collectives in the same order on all ranks",
            null);
        detector = rank;
    }

    /** Creates an exception with the message of the rank that detected the mismatch. */
    public CollectiveMismatchException(int rank, int peer, String message) {
        super(peer, message, null);
        detector = rank;
    }

    /** Returns the rank that detected the mismatch. */
    public int detector() {
        return detector;
    }

    /** Returns the rank whose call differs from that of the {@link #detector}. */
    @Override
    public int rank() {
        return super.rank();
    }
}
