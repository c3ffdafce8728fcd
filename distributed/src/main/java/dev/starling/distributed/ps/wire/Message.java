package dev.starling.distributed.ps.wire;

import dev.starling.distributed.group.Channels;
import java.nio.ByteOrder;

/**
 * Layout of the messages between workers and servers. All numbers are little-endian. A request's header is followed by
 * floats, or by keys and then floats. Messages that are neither requests nor replies have kinds from 20 on.
 */
public final class Message {
    /** The channel of these messages. */
    public static final int CHANNEL = Channels.FIRST_OF_STRATEGIES;
    /** Byte order of all numbers. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    // ---- requests ----

    /** A worker joins, or rejoins, a unit. Floats, if any, become the weights of a unit that has none. */
    public static final int JOIN = 1;
    /** The gradient of a block; without floats, the block has no gradient in this step. */
    public static final int PUSH = 2;
    /** Gradients of rows. */
    public static final int PUSH_ROWS = 3;
    /** Requests the weights of a block if the flags are 0, else the slot of the rule's state that they number. */
    public static final int PULL = 4;
    /** Requests rows. */
    public static final int PULL_ROWS = 5;
    /** A worker was lost or has left. Internal: never received from the network. */
    public static final int LEAVE = 6;
    /** Requests a snapshot. Internal. */
    public static final int SNAPSHOT = 7;

    /**
     * One slot of the rule's state; the flags number it, from 1, and the rate field holds the number of steps taken.
     * Precedes the weights of a block that has none.
     */
    public static final int KEPT = 8;
    /** Requests a cut of all rows. Internal. */
    public static final int CUT = 9;
    /** All rows of a checkpoint were read. Internal. */
    public static final int ROWS_READY = 10;

    /** Flag: the last push of rows of this step. */
    public static final int LAST = 1;

    public static final int KIND = 0;
    public static final int WORKER = 4;
    public static final int SESSION = 8;
    /** The number of the push within the session, from 0, counted by unit; of a pull any number. */
    public static final int SEQUENCE = 16;
    public static final int UNIT = 24;
    /** Floats, or rows. */
    public static final int COUNT = 28;
    public static final int RATE = 32;
    /** Weight of the gradient in a sum over workers; unused without one. */
    public static final int WEIGHT = 40;
    public static final int FLAGS = 48;
    public static final int HEADER = 56;

    // ---- replies ----

    /** Success: the current weights, or the acknowledgement of all pushes of the session up to the sequence number. */
    public static final int DONE = 1;
    /** The server does not know the session: it considered the worker lost, or has lost its own state. */
    public static final int UNKNOWN_SESSION = 2;
    /** The gradient has an element that is infinite or NaN; the server has not applied it and will not. */
    public static final int NOT_FINITE = 3;

    public static final int STATUS = 0;
    public static final int REPLY_WORKER = 4;
    public static final int REPLY_SESSION = 8;
    public static final int REPLY_SEQUENCE = 16;
    public static final int REPLY_UNIT = 24;
    public static final int REPLY_COUNT = 28;
    /** The kind of the request that caused the reply; for a join or a push this may be another worker's request. */
    public static final int REPLY_KIND = 32;
    public static final int SERVER = 36;
    public static final int REPLY_HEADER = 40;

    // ---- session and control messages: sender, fields; rest ----

    /** Server to all members: kind, server number. Announces the server. */
    public static final int ANNOUNCE = 20;
    /** Worker: kind, worker, length of the plan, offset; part of the plan. Opens a session. */
    public static final int HELLO = 21;
    /**
     * Server: kind, server, 1 if it continued with the contents of its directory, random number of its process; notes
     * of the worker that is furthest ahead.
     */
    public static final int WELCOME = 22;
    /** Server: kind, server; reason. */
    public static final int REFUSED = 23;
    /** Worker: kind, worker, round, count; doubles to be summed over workers. */
    public static final int SUM = 24;
    /** Server: kind, server, round, count; the sums. */
    public static final int TOTAL = 25;
    /** Worker: kind, worker, step; notes of its position in the run. */
    public static final int NOTES = 26;
    /** Worker: kind, worker. The worker is done. */
    public static final int GOODBYE = 27;
    /** Server: kind, server. Answers GOODBYE. */
    public static final int FAREWELL = 28;
    /** Worker 0: kind, worker, step; notes of the position at which the run starts. */
    public static final int BEGIN = 29;
    /** Server: kind, server. Answers BEGIN. */
    public static final int BEGUN = 30;
    /** Worker 0: kind, worker, id, request of {@code RowTask}; its arguments. */
    public static final int TASK = 31;
    /** Server: kind, server, id, state of {@code RowTask}, progress; result or error text. */
    public static final int TASK_STATE = 32;
    /** Server: kind, server. A task with rows makes progress; workers may have to wait for it. */
    public static final int WORKING = 33;
    /** Both: kind, number, lost rank, nanoseconds since it was last heard; reason why synchronous training ends. */
    public static final int LOST = 34;

    /** Worker: kind, worker. Confirms FAREWELL. */
    public static final int FAREWELL_CONFIRMED = 35;

    private Message() {
    }
}
