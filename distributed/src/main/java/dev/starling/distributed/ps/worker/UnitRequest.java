package dev.starling.distributed.ps.worker;

import dev.starling.distributed.ps.wire.Message;
import java.lang.System.Logger.Level;
import java.util.random.RandomGenerator;
import org.agrona.DirectBuffer;

/**
 * A worker's requests for one unit of a server: a block, or the server's rows of a table. At most one request is open
 * at a time. Used under the group's lock.
 */
public abstract sealed class UnitRequest permits BlockRequest, TablePart {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    final ServerLink server;
    /** Number of the unit on the server. */
    final int number;
    private final RandomGenerator random;
    long session;
    /** Kind of the open request, or 0. */
    int asked;
    /** Kind of the request that follows when the worker has rejoined, or 0. */
    int next;
    /** Whether the request is in the queue of its link. */
    boolean queued;

    UnitRequest(ServerLink server, int number, RandomGenerator random) {
        this.server = server;
        this.number = number;
        this.random = random;
        session = random.nextLong();
    }

    /** Opens a request; returns whether it will have a reply. */
    boolean ask(int kind) {
        asked = kind;
        server.queue(this);
        return true;
    }

    /** Closes the open request: nothing of it is sent any more, and replies to it are ignored. */
    final void abandon() {
        asked = 0;
        next = 0;
    }

    /** Joins in a new session, in which the open request follows. */
    void rejoin() {
        LOG.log(Level.DEBUG, "server {0} no longer knows the session of worker {1} in unit {2}; rejoining",
                server.number, server.worker, number);
        session = random.nextLong();
        next = asked;
        asked = Message.JOIN;
        server.queue(this);
    }

    final boolean isOpen() {
        return asked != 0;
    }

    /** Returns whether the server has acknowledged gradients in this session. */
    abstract boolean hasPushed();

    /** Makes {@link #send} repeat all messages that have no reply. */
    void restart() { }

    /** Sends what may be sent now; returns false if the link has no room for it. */
    abstract boolean send();

    /** Handles a reply; returns whether it completes the open request. */
    final boolean onReply(DirectBuffer reply, int offset, int length) {
        if (!isOpen() || reply.getLong(offset + Message.REPLY_SESSION, Message.ORDER) != session
                || isPull(reply.getInt(offset + Message.REPLY_KIND, Message.ORDER)) != isPull(asked)) {
            return false;
        }
        long sequence = reply.getLong(offset + Message.REPLY_SEQUENCE, Message.ORDER);
        if (reply.getInt(offset + Message.STATUS, Message.ORDER) == Message.UNKNOWN_SESSION) {
            onUnknownSession(sequence);
            return false;
        }
        onReply(sequence, reply, offset + Message.REPLY_HEADER, length - Message.REPLY_HEADER);
        return !isOpen();
    }

    private static boolean isPull(int kind) {
        return kind == Message.PULL || kind == Message.PULL_ROWS;
    }

    /** Handles the reply that the server no longer knows the session. */
    abstract void onUnknownSession(long sequence);

    /** Handles a reply to the open request; {@code offset} is that of the reply's elements. */
    abstract void onReply(long sequence, DirectBuffer reply, int offset, int length);
}
