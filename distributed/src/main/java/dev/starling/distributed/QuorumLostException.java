package dev.starling.distributed;

/**
 * This process reaches too few members of its group: the others may continue without it, and it must not. It has
 * stopped training; what the others have saved is intact. A process that joins again receives the state of the others.
 */
public final class QuorumLostException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int rank;
    private final int reachable;
    private final int members;

    /**
     * Creates an exception.
     *
     * @param rank of this process in its last epoch; -1 if it has not been a member
     * @param reachable number of members that are reachable, this process included
     * @param members number of members of the last epoch that are not known to have ended
     */
    public QuorumLostException(int rank, int reachable, int members) {
        super((rank < 0 ? "this process" : "rank " + rank) + " is cut off from the quorum of its group: " + reachable
                + " of the " + members + " members of the last epoch are reachable, and the others may continue without"
                + " them; start this process again when it reaches the others, or choose another quorum");
        this.rank = rank;
        this.reachable = reachable;
        this.members = members;
    }

    /** Returns the rank of this process in its last epoch, or -1. */
    public int rank() {
        return rank;
    }

    /** Returns the number of reachable members, this process included. */
    public int reachable() {
        return reachable;
    }

    /** Returns the number of members of the last epoch that are not known to have ended. */
    public int members() {
        return members;
    }
}
