package dev.starling.distributed.ps.server;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.util.EnumSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** A server's session with one worker number. Used under the group's lock. */
final class WorkerSession {
    private State state = State.AWAITED;
    /** Connection to the worker's process; {@code null} while no process has the number. */
    private @Nullable Endpoint endpoint;
    private long finishedNs;
    /** The next unit that the worker has to leave; {@link Integer#MAX_VALUE} while it leaves none. */
    private int nextUnitToLeave = Integer.MAX_VALUE;
    /** Messages for which the link had no room. The server sends them later, with the values of that time. */
    final Set<Due> unsent = EnumSet.noneOf(Due.class);
    /** Replies for which the link had no room. */
    final Backlog held = new Backlog();
    /** Another process that claims the number, and since when. */
    private @Nullable Endpoint claimant;
    private long claimedNs;

    /** What a server sends to a worker as soon as the link has room. */
    enum Due { WELCOME, BEGUN, FAREWELL }

    /** What happens to a process that claims a number. */
    enum Claim {
        ACCEPTED,
        /** It asks again, until the present process is either lost or proven alive. */
        DEFERRED,
        /** The present process is alive, or its place is fixed. */
        REFUSED
    }

    private enum State {
        /** No process has had the number yet, and the server waits for one. */
        AWAITED,
        PRESENT,
        /** The process was lost, or none has come; the others continue without the worker. */
        VACANT,
        /** The worker is done and the server has sent its farewell. */
        FINISHED,
        /** The worker has confirmed the farewell. */
        CONFIRMED
    }

    /** Returns the connection to the worker's process, or {@code null} while no process has the number. */
    @Nullable Endpoint endpoint() {
        return endpoint;
    }

    /** Assigns the worker's number to a process. */
    void assign(Endpoint process) {
        if (endpoint != process) {
            // The worker repeats over its new connection what has no reply.
            held.clear();
        }
        state = State.PRESENT;
        endpoint = process;
        claimant = null;
        nextUnitToLeave = Integer.MAX_VALUE;
        unsent.clear();
    }

    /**
     * Returns whether a process may have the number. The present process is alive if it is still connected after the
     * liveness timeout.
     *
     * @param fixed whether no process may replace another, lost or not
     */
    Claim claim(Endpoint from, Transport transport, boolean fixed) {
        if (endpoint == null || endpoint == from || !fixed && (isFinished() || !endpoint.isConnected())) {
            return Claim.ACCEPTED;
        }
        if (from != claimant) {
            claimant = from;
            claimedNs = transport.nanoTime();
        }
        return fixed || transport.nanoTime() - claimedNs > transport.config().livenessTimeout().toNanos()
                ? Claim.REFUSED : Claim.DEFERRED;
    }

    /** Sends held replies, in order, until the link has no room. */
    void sendHeld() {
        Endpoint to = endpoint;
        if (to != null) {
            held.drainTo((buffer, offset, length) -> to.send(buffer, offset, length) != Endpoint.BACK_PRESSURED);
        }
    }

    boolean isAwaited() {
        return state == State.AWAITED;
    }

    /** Returns whether the worker is done and the server has sent its farewell. */
    boolean isFinished() {
        return state == State.FINISHED || state == State.CONFIRMED;
    }

    /** Makes the number free, because its process is lost or none has come; the worker then leaves unit by unit. */
    void vacate() {
        state = isFinished() ? state : State.VACANT;
        endpoint = null;
        unsent.clear();
        held.clear();
        nextUnitToLeave = 0;
    }

    /** Marks the worker as done; it then leaves unit by unit. */
    void finish(long nowNs) {
        if (!isFinished()) {
            state = State.FINISHED;
            finishedNs = nowNs;
        }
        nextUnitToLeave = Math.min(nextUnitToLeave, 0);
    }

    void confirmFarewell() {
        state = isFinished() ? State.CONFIRMED : state;
    }

    /** Makes the worker leave units until the core has no room; {@code worker} is its number. */
    void leaveUnits(ServerCore core, int worker) {
        while (nextUnitToLeave < core.units() && core.leave(worker, nextUnitToLeave)) {
            nextUnitToLeave++;
        }
    }

    /**
     * Returns whether the worker no longer needs the server. The server waits for the confirmation of its farewell no
     * longer than the liveness timeout.
     */
    boolean isDone(Transport transport, int units) {
        return isFinished() && nextUnitToLeave >= units && (state == State.CONFIRMED
                || transport.nanoTime() - finishedNs > transport.config().livenessTimeout().toNanos());
    }
}
