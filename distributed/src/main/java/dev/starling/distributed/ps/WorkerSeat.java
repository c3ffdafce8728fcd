package dev.starling.distributed.ps;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;

/** One worker, as a server sees it. To be used under the group's lock. */
final class WorkerSeat {
    /** {@code null} while nobody is there. */
    Endpoint endpoint;
    /** Whether it is done, and was told that it may go. */
    boolean finished;
    long finishedNs;
    /** Whether it has heard that. */
    boolean parted;
    /** The unit from which on it has yet to leave. */
    int leaving = Integer.MAX_VALUE;
    /** The kinds of what there was no room to say, a bit each; as things are when there is. */
    int owed;
    /** Another process that wants the seat, and since when. */
    private Endpoint claimant;
    private long claimedNs;
    /** Whether who is there was heard after that, or has the seat for good. */
    boolean isDefended;

    /** Has a process take the seat. */
    void take(Endpoint from) {
        endpoint = from;
        claimant = null;
        finished = false;
        parted = false;
        leaving = Integer.MAX_VALUE;
        owed = 0;
    }

    /**
     * Tells whether a process may take the seat from who is there. If not yet, it asks again: by then, who is there is
     * lost, or {@link #isDefended} tells that it goes on.
     *
     * @param isFixed whether nobody may, lost or not
     */
    boolean mayTake(Endpoint from, Transport transport, boolean isFixed) {
        if (endpoint == null || endpoint == from || !isFixed && (finished || !endpoint.isConnected())) {
            return true;
        }
        if (from != claimant) {
            claimant = from;
            claimedNs = transport.nanoTime();
        }
        isDefended = isFixed || transport.nanoTime() - claimedNs > transport.config().livenessTimeout().toNanos();
        return false;
    }

    /** Tells whether nobody has been there yet. */
    boolean isAwaited() {
        return endpoint == null && leaving == Integer.MAX_VALUE;
    }

    /** Notes that nobody is there any more. */
    void vacate() {
        endpoint = null;
        owed = 0;
        leaving = 0;
    }

    /** Notes that it may go; it leaves unit by unit. */
    void finish(long nowNs) {
        finishedNs = finished ? finishedNs : nowNs;
        finished = true;
        leaving = Math.min(leaving, 0);
    }

    /** Tells whether it does not need the server any more; that it knows so is waited for no longer than a silence. */
    boolean isDone(Transport transport, int units) {
        return finished && leaving >= units
                && (parted || transport.nanoTime() - finishedNs > transport.config().livenessTimeout().toNanos());
    }
}
