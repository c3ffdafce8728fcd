package dev.starling.kafka;

import dev.starling.errors.StarlingException;

/** Thrown if brokers do not answer, a record cannot be decoded, or a model cannot be served. */
public final class StreamException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception. */
    public StreamException(String message) {
        super(message);
    }

    /** Makes an exception with its cause, which may be {@code null}. */
    public StreamException(String message, Throwable cause) {
        super(message, cause);
    }
}
