package dev.starling.distributed.ps.worker;

import dev.starling.distributed.group.Channels;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.random.RandomGenerator;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A worker's view of the rows of a table that one server holds. A request takes as many messages as it needs, several
 * of them in flight; the server processes them in order, so replies arrive in order. Used under the group's lock.
 */
public final class TablePart {
    private static final int MAX_IN_FLIGHT = 8;

    private final ServerLink server;
    /** BlockRequest number on the server. */
    private final int number;
    private final int width;
    private final int perPull;
    private final int perPush;
    /** Whether the server answers pushes only when those of all workers have arrived. */
    private final boolean synchronous;
    private final RandomGenerator random;
    private final UnsafeBuffer rows = new UnsafeBuffer(0, 0);
    private long[] keys = new long[16];
    /** Row number of each key in {@link #rows}. */
    private int[] places = new int[16];
    private int count;
    private double rate;

    private long session;
    /** Sequence number of the next push in this session, and of the next pull. */
    private long pushes;
    private long pulls;
    /** Kind of the open request, or 0. */
    private int asked;
    /** Whether a push continues after the worker has rejoined. */
    private boolean pushesNext;
    private long base;
    private int messages;
    private int sent;
    private int done;

    public TablePart(ServerLink server, int number, Plan plan, Plan.Table table, RandomGenerator random) {
        this.server = server;
        this.number = number;
        this.random = random;
        width = table.width();
        perPull = Math.min(plan.blockLength() / 2, plan.blockLength() / width);
        perPush = plan.blockLength() / (2 + width);
        synchronous = plan.consistency() instanceof Consistency.Synchronous;
        session = random.nextLong();
    }

    /** Starts a new set of keys, whose rows are in the given memory. */
    public void begin(MemorySegment memory, double newRate) {
        rows.wrap(memory.address(), (int) Math.min(Integer.MAX_VALUE, memory.byteSize()));
        count = 0;
        rate = newRate;
    }

    public void add(long key, int place) {
        if (count == keys.length) {
            keys = Arrays.copyOf(keys, 2 * count);
            places = Arrays.copyOf(places, 2 * count);
        }
        keys[count] = key;
        places[count++] = place;
    }

    /** Opens a request; returns whether it will have a reply. */
    public boolean ask(int kind) {
        base = kind == Message.PULL_ROWS ? pulls : pushes;
        messages = switch (kind) {
            case Message.PULL_ROWS -> (count + perPull - 1) / perPull;
            // A worker without gradients sends an empty push, or the other workers would wait for it.
            case Message.PUSH_ROWS -> Math.max(1, (count + perPush - 1) / perPush);
            default -> 1;
        };
        asked = messages == 0 ? 0 : kind;
        sent = 0;
        done = 0;
        return asked != 0;
    }

    /** Returns whether the server has acknowledged gradients in this session. */
    boolean hasPushed() {
        return pushes > 0;
    }

    /** Returns whether a request is open. */
    boolean isPending() {
        return asked != 0;
    }

    /** Makes {@link #pump} send all messages again that have no reply. */
    void resend() {
        sent = done;
    }

    /** Sends as much as the link accepts. */
    void pump() {
        int max = synchronous && asked == Message.PUSH_ROWS ? Integer.MAX_VALUE : MAX_IN_FLIGHT;
        int end = asked == Message.JOIN ? done + 1 : messages;
        while (asked != 0 && sent < end && sent - done < max && send()) {
            sent++;
        }
    }

    private boolean send() {
        boolean pushing = asked == Message.PUSH_ROWS;
        int per = asked == Message.JOIN ? 0 : pushing ? perPush : perPull;
        int from = sent * per;
        int n = Math.min(per, count - from);
        MutableDirectBuffer message = server.begin(asked, session, base + sent, number, n);
        message.putDouble(Channels.HEADER + Message.RATE, rate, Message.ORDER);
        message.putInt(Channels.HEADER + Message.LAST, pushing && sent == messages - 1 ? 1 : 0, Message.ORDER);
        int at = Channels.HEADER + Message.HEADER;
        for (int i = 0; i < n; i++) {
            message.putLong(at + 8 * i, keys[from + i], Message.ORDER);
        }
        at += 8 * n;
        for (int i = 0; pushing && i < n; i++, at += 4 * width) {
            message.putBytes(at, rows, 4 * width * places[from + i], 4 * width);
        }
        return server.send(at);
    }

    /** Handles a reply; returns whether it completes the open request. */
    boolean onReply(DirectBuffer reply, int offset, int length) {
        if (asked == 0 || reply.getLong(offset + Message.REPLY_SESSION, Message.ORDER) != session) {
            return false;
        }
        boolean pull = reply.getInt(offset + Message.REPLY_KIND, Message.ORDER) == Message.PULL_ROWS;
        long sequence = reply.getLong(offset + Message.REPLY_SEQUENCE, Message.ORDER);
        if (pull != (asked == Message.PULL_ROWS)) {
            return false;
        }
        if (reply.getInt(offset, Message.ORDER) == Message.UNKNOWN_SESSION) {
            if (asked == Message.PUSH_ROWS) {
                rejoin();
            }
            return false;
        }
        if (pull) {
            return readRows(sequence, reply, offset + Message.REPLY_HEADER, length - Message.REPLY_HEADER);
        }
        if (asked == Message.JOIN) {
            if (pushesNext) {
                pushesNext = false;
                asked = Message.PUSH_ROWS;
                sent = done;
                return false;
            }
            asked = 0;
            return true;
        }
        if (sequence >= base + done && sequence < base + messages) {
            done = (int) (sequence - base) + 1;
            if (done == messages) {
                pushes = base + messages;
                asked = 0;
            }
        }
        return asked == 0;
    }

    /** Joins in a new session, in which the messages that were not acknowledged are pushed. */
    private void rejoin() {
        session = random.nextLong();
        base = -done;
        pushesNext = true;
        asked = Message.JOIN;
        sent = done;
    }

    private boolean readRows(long sequence, DirectBuffer reply, int offset, int length) {
        int from = done * perPull;
        int n = Math.min(perPull, count - from);
        if (sequence != base + done || length != 4 * n * width) {
            return false;
        }
        for (int i = 0; i < n; i++) {
            rows.putBytes(4 * width * places[from + i], reply, offset + 4 * width * i, 4 * width);
        }
        if (++done == messages) {
            pulls = base + messages;
            asked = 0;
        }
        return asked == 0;
    }
}
