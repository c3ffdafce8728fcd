package dev.starling.transport;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/**
 * A failure of the network, the configuration or a peer. The message names the problem and, where there is one, the
 * remedy.
 */
public class TransportException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final Problem problem;

    /** Creates an exception with a cause. */
    public TransportException(Problem problem, String what, String remedy, @Nullable Throwable cause) {
        super(remedy.isEmpty() ? what : what + "; " + remedy, cause);
        this.problem = problem;
    }

    /** Creates an exception. */
    public TransportException(Problem problem, String what, String remedy) {
        this(problem, what, remedy, null);
    }

    /**
     * Throws an exception about an argument unless a relation holds.
     *
     * @param what the relation, and the value found instead
     */
    public static void require(boolean holds, String what, String remedy) {
        if (!holds) {
            throw new TransportException(Problem.ARGUMENT, what, remedy);
        }
    }

    /** Returns the kind of problem. */
    public Problem problem() {
        return problem;
    }

    /** Kinds of problems. */
    public enum Problem {
        /** An argument or a setting cannot be used. */
        ARGUMENT,
        /** A library, a tool or a permission is missing on this machine. */
        UNAVAILABLE,
        /** A port, a directory or a name is already in use. */
        IN_USE,
        /** Memory, shared memory or disk space is exhausted. */
        NO_ROOM,
        /** A deadline passed. */
        TIMED_OUT,
        /** The peer did not prove that it belongs to the cluster, or this process did not. */
        REFUSED,
        /** The peer is lost. */
        LOST,
        /** The object is closed. */
        CLOSED
    }
}
