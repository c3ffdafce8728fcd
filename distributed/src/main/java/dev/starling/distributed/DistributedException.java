package dev.starling.distributed;

import dev.starling.errors.StarlingException;

/** Processes that train together cannot go on together. The message names rank and cause. */
public class DistributedException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception. */
    public DistributedException(String message) {
        super(message);
    }

    /** Makes an exception with its cause. */
    public DistributedException(String message, Throwable cause) {
        super(message, cause);
    }
}
