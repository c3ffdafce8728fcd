package dev.starling.nn.serve;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/** A prediction that has no result. The message names the limit that was reached, or the model's own error. */
public final class PredictionException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** The reason. */
    public enum Reason {
        /** As many requests wait as may wait; the caller may retry later. */
        REFUSED,
        /** There was no result at the deadline of the request. */
        TIMEOUT,
        /** The predictor is closed. */
        CLOSED,
        /** The calling thread was interrupted; it is still marked as interrupted. */
        INTERRUPTED,
        /** The model threw an exception for this example, or its memory could not be copied; that is the cause. */
        FAILED
    }

    private final Reason reason;

    PredictionException(Reason reason, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.reason = reason;
    }

    PredictionException(Reason reason, String message) {
        this(reason, message, null);
    }

    /** Returns the reason. */
    public Reason reason() {
        return reason;
    }
}
