package dev.starling.distributed.ps.wire;

import dev.starling.distributed.group.Channels;
import java.nio.ByteOrder;

/**
 * Layout of the messages between workers and servers that carry weights and gradients; {@link SessionMessage} is the
 * others. All numbers are little-endian. A request's header is followed by floats, or by keys and then floats.
 */
public final class Message {
    /** The channel of these messages. */
    public static final int CHANNEL = Channels.FIRST_OF_STRATEGIES;
    /** Byte order of all numbers. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    /** Maximum number of a worker's messages for one table that await a reply of their own; for a block it is one. */
    public static final int MAX_IN_FLIGHT = 8;

    // ---- requests ----

    /** A worker joins, or rejoins, a unit. Floats, if any, become the weights of a unit that has none. */
    public static final int JOIN = 1;
    /** The gradient of a block; without floats, the block has no gradient in this step. */
    public static final int PUSH = 2;
    /** Gradients of rows. */
    public static final int PUSH_ROWS = 3;
    /** Requests the weights of a block, or a slot of its rule's state. */
    public static final int PULL = 4;
    /** Requests rows. */
    public static final int PULL_ROWS = 5;
    /** A worker was lost or has left. Internal: never received from the network. */
    public static final int LEAVE = 6;

    /** One slot of the rule's state, with the number of steps taken. Precedes the weights of a block that has none. */
    public static final int KEPT = 8;
    /** Requests a cut of all rows. Internal. */
    public static final int CUT = 9;
    /** All rows of a checkpoint were read. Internal. */
    public static final int ROWS_READY = 10;

    public static final int KIND = 0;
    public static final int WORKER = 4;
    public static final int SESSION = 8;
    /** The number of the push within the session, from 0, or of the pull; both are counted by unit. */
    public static final int SEQUENCE = 16;
    public static final int UNIT = 24;
    /** Floats, or rows. */
    public static final int COUNT = 28;
    /** Learning rate of a push. */
    public static final int RATE = 32;
    /** Number of steps that led to a kept slot, in the place of the rate. */
    public static final int STEPS = 32;
    /** Weight of the gradient in a sum over workers; unused without one. */
    public static final int WEIGHT = 40;
    /** 1 in the last push of rows of a step. */
    public static final int LAST = 48;
    /** A slot of the rule's state, from 1, in pulls and kept slots; 0 for weights. */
    public static final int SLOT = 52;
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

    /** Returns whether workers may send requests of this kind. */
    public static boolean isRequest(int kind) {
        return kind >= JOIN && kind <= PULL_ROWS || kind == KEPT;
    }

    private Message() {
    }
}
