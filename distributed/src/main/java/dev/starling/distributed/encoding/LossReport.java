package dev.starling.distributed.encoding;

import dev.starling.distributed.PeerLostException;
import java.time.Duration;

/**
 * A loss as one process reports it to another.
 *
 * @param rank of the lost process; -1 for the coordinator
 * @param silentNs time between its last sign of life and the detection of the loss
 * @param reason how the loss was detected, or the message of the exception
 */
public record LossReport(int rank, long silentNs, String reason) {
    /** Returns the report of a loss, with the exception's message. */
    public static LossReport of(PeerLostException loss) {
        return new LossReport(loss.rank(), loss.silentFor().toNanos(), String.valueOf(loss.getMessage()));
    }

    /** Returns an exception that says how the loss was detected. */
    public PeerLostException detected() {
        return new PeerLostException(rank, Duration.ofNanos(silentNs), reason);
    }

    /** Returns an exception that says which rank ended because of a loss of which {@link #of} was the report. */
    public PeerLostException reportedBy(int reporter) {
        return new PeerLostException(rank, Duration.ofNanos(silentNs), reporter, reason);
    }
}
