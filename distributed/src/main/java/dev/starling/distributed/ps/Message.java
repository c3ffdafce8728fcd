package dev.starling.distributed.ps;

/**
 * Where things are in requests and replies. All numbers are little-endian. A request's header is followed by floats,
 * or by keys and then floats. What workers and servers tell each other beside these begins with a kind from 20 on.
 */
final class Message {
    // ---- requests ----

    /** A worker comes (back) to a unit; with floats, they are the weights if the unit has none. */
    static final int JOIN = 1;
    /** A gradient of a block; without floats there is none in this step. */
    static final int PUSH = 2;
    /** Gradients of rows. */
    static final int PUSH_ROWS = 3;
    /** Asks for the weights of a block, or for what the rule keeps of each: the flags tell which of these, from 1. */
    static final int PULL = 4;
    /** Asks for rows. */
    static final int PULL_ROWS = 5;
    /** A worker is gone. Never comes from outside. */
    static final int LEAVE = 6;
    /** Asks for a snapshot. Never comes from outside. */
    static final int SNAPSHOT = 7;

    /**
     * What the rule has kept of each weight, where the flags tell which of these, from 1; the rate is how many steps
     * there were. For a block that has no weights yet; those follow.
     */
    static final int KEPT = 8;
    /** Asks for a cut of all rows. Never comes from outside. */
    static final int CUT = 9;
    /** All rows of a checkpoint are there. Never comes from outside. */
    static final int ROWS_READY = 10;

    /** Flag: the last push of rows of this step. */
    static final int LAST = 1;

    static final int KIND = 0;
    static final int WORKER = 4;
    static final int SESSION = 8;
    /** The number of the push within the session, from 0, counted by unit; of a pull any number. */
    static final int SEQUENCE = 16;
    static final int UNIT = 24;
    /** Floats, or rows. */
    static final int COUNT = 28;
    static final int RATE = 32;
    /** What the gradient is multiplied by in the sum over workers, if there is one. */
    static final int WEIGHT = 40;
    static final int FLAGS = 48;
    static final int HEADER = 56;

    // ---- replies ----

    /** Weights as they are now; or all pushes of this session up to this sequence are done. */
    static final int DONE = 1;
    /** The server does not know this session: the worker was taken for dead, or the server lost its state. */
    static final int UNKNOWN_SESSION = 2;
    /** The push has a number that is infinite or NaN: nothing was changed, and nothing will come of it. */
    static final int NOT_FINITE = 3;

    static final int STATUS = 0;
    static final int REPLY_WORKER = 4;
    static final int REPLY_SESSION = 8;
    static final int REPLY_SEQUENCE = 16;
    static final int REPLY_UNIT = 24;
    static final int REPLY_COUNT = 28;
    /** The kind of the request, except that the reply to a join or a push may come late. */
    static final int REPLY_KIND = 32;
    static final int SERVER = 36;
    static final int REPLY_HEADER = 40;

    // ---- around them ----

    /** Server to all: kind, server's number. */
    static final int HERE = 20;
    /** Worker: kind, number, length of the plan, offset; part of the plan. */
    static final int HELLO = 21;
    /**
     * Server: kind, server, 1 if it went on with what its directory held, a number that another process in its place
     * does not have; the notes of the worker that is furthest.
     */
    static final int WELCOME = 22;
    /** Server: kind, server; why. */
    static final int REFUSED = 23;
    /** Worker: kind, number, round, how many; doubles to be summed over workers. */
    static final int SUM = 24;
    /** Server: kind, server, round, how many; doubles. */
    static final int TOTAL = 25;
    /** Worker: kind, number, step; notes of its place in the run. */
    static final int NOTES = 26;
    /** Worker: kind, number; it is done. */
    static final int BYE = 27;
    /** Server: kind, server. */
    static final int FAREWELL = 28;
    /** Worker 0: kind, number, step; notes of where the run begins. */
    static final int BEGIN = 29;
    /** Server: kind, server. */
    static final int BEGUN = 30;
    /** Worker 0: kind, number, id, what of {@link RowTask}; what that needs. */
    static final int TASK = 31;
    /** Server: kind, server, id, state of {@link RowTask}, progress; a text. */
    static final int TASK_STATE = 32;
    /** Server: kind, server; a task with rows goes on, for which workers may have to wait. */
    static final int WORKING = 33;
    /** Both: kind, number, rank, for how many nanoseconds it was not heard; why synchronous training ends. */
    static final int LOST = 34;

    /** Worker: kind, number; it has heard the farewell. */
    static final int PARTED = 35;

    private Message() {
    }
}
