package dev.starling.errors;

import org.jspecify.annotations.Nullable;

/**
 * The root of all exceptions that Starling throws on purpose: for bad arguments and operands, files and data that
 * cannot be used, exhausted memory, lost peers. Its message states what must hold, the values that do not satisfy it,
 * and the remedy.
 *
 * <p>Three kinds of exception do not extend this class: {@link NullPointerException}, for a {@code null} argument whose
 * description does not allow {@code null}; checked exceptions and the {@link java.util.NoSuchElementException} of
 * iterators; and whatever the caller's own code throws when Starling calls it (a body, a data set, a listener).
 */
public abstract class StarlingException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception without a cause. */
    protected StarlingException(String message) {
        super(message);
    }

    /** Makes an exception with its cause, which may be {@code null}. */
    protected StarlingException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
