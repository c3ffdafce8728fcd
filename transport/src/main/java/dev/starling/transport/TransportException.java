package dev.starling.transport;

import dev.starling.errors.StarlingException;

/** Something is wrong with the network, the configuration or a peer. The message says what and what to do. */
public class TransportException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final Problem problem;

    /** Makes an exception with its cause. */
    public TransportException(Problem problem, String what, String remedy, Throwable cause) {
        super(remedy.isEmpty() ? what : what + "; " + remedy, cause);
        this.problem = problem;
    }

    /** Makes an exception. */
    public TransportException(Problem problem, String what, String remedy) {
        this(problem, what, remedy, null);
    }

    /** Returns what kind of problem it is. */
    public Problem problem() {
        return problem;
    }

    /** Kinds of problems. */
    public enum Problem {
        /** An argument or a setting cannot be used. */
        ARGUMENT,
        /** A library, a tool or a right is missing on this machine. */
        UNAVAILABLE,
        /** A port, a directory or a name is already in use. */
        IN_USE,
        /** There is no room: memory, shared memory or disk. */
        NO_ROOM,
        /** A deadline passed. */
        TIMED_OUT,
        /** The peer did not prove that it belongs to the cluster, or this process did not. */
        REFUSED,
        /** The peer is gone. */
        LOST,
        /** What was used is closed. */
        CLOSED
    }
}
