package dev.starling.distributed.ps;

import dev.starling.transport.Endpoint;

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

    /** Has a process take the seat. */
    void take(Endpoint from) {
        endpoint = from;
        finished = false;
        parted = false;
        leaving = Integer.MAX_VALUE;
        owed = 0;
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

    /** Tells whether it does not need the server any more; that it knows so is waited for no longer than that. */
    boolean isDone(long nowNs, long silenceNs, int units) {
        return finished && leaving >= units && (parted || nowNs - finishedNs > silenceNs);
    }
}
