package dev.starling.distributed;

import java.time.Duration;

/** Another process is dead, stopped or cut off. */
public final class PeerLostException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int rank;
    private final Duration unheard;

    /**
     * Makes an exception.
     *
     * @param rank of the lost process; -1 for the coordinator
     * @param unheard for how long nothing was heard from it when it was given up
     * @param reason what was noticed
     */
    public PeerLostException(int rank, Duration unheard, String reason) {
        super((rank < 0 ? "the coordinator" : "rank " + rank) + " is lost, last heard " + unheard.toMillis()
                + " ms ago: " + reason);
        this.rank = rank;
        this.unheard = unheard;
    }

    /** Makes an exception of what another process has noticed. */
    public PeerLostException(int rank, Duration unheard, int noticedBy, String message) {
        super("rank " + noticedBy + " gave up: " + message);
        this.rank = rank;
        this.unheard = unheard;
    }

    /** Returns the rank of the lost process; -1 for the coordinator. */
    public int rank() {
        return rank;
    }

    /** Returns for how long nothing was heard from it when it was given up. */
    public Duration unheard() {
        return unheard;
    }
}
