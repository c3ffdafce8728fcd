package dev.starling.distributed;

import java.time.Duration;

/** A member, or the coordinator, was killed, is stopped or is cut off from the network. */
public final class PeerLostException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final Duration silentFor;

    /**
     * Creates an exception for a loss that this process detected, or that the coordinator reported.
     *
     * @param rank of the lost process; -1 for the coordinator
     * @param silentFor time between the last sign of life and the detection of the loss
     * @param reason how the loss was detected
     */
    public PeerLostException(int rank, Duration silentFor, String reason) {
        super(rank, (rank < 0 ? "the coordinator" : "rank " + rank) + " is lost, last heard " + silentFor.toMillis()
                + " ms ago: " + reason, null);
        this.silentFor = silentFor;
    }

    /** Creates an exception for a loss that rank {@code reportedBy} detected; {@code message} is its message. */
    public PeerLostException(int rank, Duration silentFor, int reportedBy, String message) {
        super(rank, "rank " + reportedBy + " ended because of a loss: " + message, null);
        this.silentFor = silentFor;
    }

    /** Returns the rank of the lost process; -1 for the coordinator. */
    @Override
    public int rank() {
        return super.rank();
    }

    /** Returns the time between the last sign of life and the detection of the loss. */
    public Duration silentFor() {
        return silentFor;
    }
}
