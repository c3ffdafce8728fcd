package dev.starling.distributed;

import dev.starling.nn.train.RunEndedException;
import org.jspecify.annotations.Nullable;

/** A group of processes cannot continue. The message names the rank and the cause. */
public class DistributedException extends RunEndedException {
    private static final long serialVersionUID = 1L;

    /** Creates an exception. */
    public DistributedException(String message) {
        this(-1, message, null);
    }

    /** Creates an exception with its cause, or {@code null} if there is none. */
    public DistributedException(String message, @Nullable Throwable cause) {
        this(-1, message, cause);
    }

    /** Creates an exception whose reason lies at a rank, or at none if it is -1; {@code cause} may be {@code null}. */
    public DistributedException(int rank, String message, @Nullable Throwable cause) {
        super(rank, message, cause);
    }
}
