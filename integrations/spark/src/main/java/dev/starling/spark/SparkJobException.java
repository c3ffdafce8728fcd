package dev.starling.spark;

import dev.starling.errors.StarlingException;

/** Thrown if a job cannot start or has failed: too few slots, executors without a flag, a cancelled job. */
public final class SparkJobException extends StarlingException {
    private static final long serialVersionUID = 1L;

    SparkJobException(String message) {
        super(message);
    }

    SparkJobException(String message, Throwable cause) {
        super(message, cause);
    }
}
