package dev.starling.distributed.group;

/** What a member does in its group. */
enum Phase {
    JOINING,
    /** The members of a new epoch connect to each other. */
    CONNECTING,
    /** This process is connected to the members of the new epoch that it needs, and waits for its start. */
    READY,
    RUNNING,
    BROKEN,
    ENDED;

    /** Returns whether a new epoch has been proposed and has not started. */
    boolean isForming() {
        return this == CONNECTING || this == READY;
    }
}
