package dev.starling.distributed.ps.server;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;

/** A server's session with one worker number. Used under the group's lock. */
final class WorkerSession {
    /** Connection to the worker's process; {@code null} while no process has the number. */
    Endpoint endpoint;
    /** Whether the worker is done and the server has sent its farewell. */
    boolean finished;
    private long finishedNs;
    /** Whether the worker has confirmed the farewell. */
    boolean farewellConfirmed;
    /** The next unit that the worker has to leave; {@link Integer#MAX_VALUE} while it leaves none. */
    int nextUnitToLeave = Integer.MAX_VALUE;
    /**
     * Bit set of the kinds of messages that the link had no room for. The server sends them later, with the values of
     * that time.
     */
    int unsentKinds;
    /** Another process that claims the number, and since when. */
    private Endpoint claimant;
    private long claimedNs;
    /** Whether the claim is refused: the present process is alive, or its place is fixed. */
    boolean claimRefused;

    /** Assigns the worker's number to a process. */
    void assign(Endpoint process) {
        endpoint = process;
        claimant = null;
        finished = false;
        farewellConfirmed = false;
        nextUnitToLeave = Integer.MAX_VALUE;
        unsentKinds = 0;
    }

    /**
     * Returns whether a process may have the number. If not, and {@link #claimRefused} is false, the process asks again
     * until the present one is either lost or proven alive: it is alive if it is still connected after the liveness
     * timeout.
     *
     * @param fixed whether no process may replace another, lost or not
     */
    boolean accepts(Endpoint from, Transport transport, boolean fixed) {
        if (endpoint == null || endpoint == from || !fixed && (finished || !endpoint.isConnected())) {
            return true;
        }
        if (from != claimant) {
            claimant = from;
            claimedNs = transport.nanoTime();
        }
        claimRefused = fixed || transport.nanoTime() - claimedNs > transport.config().livenessTimeout().toNanos();
        return false;
    }

    /** Returns whether no process has had the number yet, and the server still waits for one. */
    boolean isAwaited() {
        return endpoint == null && nextUnitToLeave == Integer.MAX_VALUE;
    }

    /** Marks the worker as lost; it then leaves unit by unit. */
    void vacate() {
        endpoint = null;
        unsentKinds = 0;
        nextUnitToLeave = 0;
    }

    /** Marks the worker as done; it then leaves unit by unit. */
    void finish(long nowNs) {
        finishedNs = finished ? finishedNs : nowNs;
        finished = true;
        nextUnitToLeave = Math.min(nextUnitToLeave, 0);
    }

    /**
     * Returns whether the worker no longer needs the server. The server waits for the confirmation of its farewell no
     * longer than the liveness timeout.
     */
    boolean isDone(Transport transport, int units) {
        return finished && nextUnitToLeave >= units
                && (farewellConfirmed
                || transport.nanoTime() - finishedNs > transport.config().livenessTimeout().toNanos());
    }
}
