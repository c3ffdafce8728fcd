package dev.starling.distributed;

import dev.starling.errors.StarlingException;

/** A group of processes cannot continue. The message names the rank and the cause. */
public class DistributedException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** Creates an exception. */
    public DistributedException(String message) {
        super(message);
    }

    /** Creates an exception with its cause. */
    public DistributedException(String message, Throwable cause) {
        super(message, cause);
    }
}
