package dev.starling.errors;

/**
 * The root of all exceptions that Starling throws on purpose: bad arguments and operands, files and data that cannot be
 * used, exhausted memory, lost peers. Its message states what must hold, what came instead, and the remedy.
 *
 * <p>These stay outside: {@link NullPointerException}, where an argument is {@code null} and its description does not
 * allow that; checked exceptions, and {@link java.util.NoSuchElementException} of iterators; and whatever code of the
 * caller throws that Starling calls (a body, a data set, a listener).
 */
public abstract class StarlingException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception without a cause. */
    protected StarlingException(String message) {
        super(message);
    }

    /** Makes an exception with its cause, which may be {@code null}. */
    protected StarlingException(String message, Throwable cause) {
        super(message, cause);
    }
}
