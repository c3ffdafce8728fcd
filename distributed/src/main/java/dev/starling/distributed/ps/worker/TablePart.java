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
 * of them in flight; the server processes them in order, so replies arrive in order.
 */
public final class TablePart extends UnitRequest {
    private final int width;
    private final int perPull;
    private final int perPush;
    /** Whether the server answers pushes only when those of all workers have arrived. */
    private final boolean synchronous;
    private final UnsafeBuffer rows = new UnsafeBuffer(0, 0);
    private long[] keys = new long[16];
    /** Row number of each key in {@link #rows}. */
    private int[] places = new int[16];
    private int count;
    private double rate;

    /** Sequence number of the next push in this session, and of the next pull. */
    private long pushes;
    private long pulls;
    private long base;
    private int messages;
    private int sent;
    private int done;

    TablePart(ServerLink server, int number, Plan plan, Plan.Table table, RandomGenerator random) {
        super(server, number, random);
        width = table.width();
        perPull = Math.min(plan.blockLength() / 2, plan.blockLength() / width);
        perPush = plan.blockLength() / (2 + width);
        synchronous = plan.consistency() instanceof Consistency.Synchronous;
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

    @Override
    boolean ask(int kind) {
        base = kind == Message.PULL_ROWS ? pulls : pushes;
        messages = switch (kind) {
            case Message.PULL_ROWS -> (count + perPull - 1) / perPull;
            // A worker without gradients sends an empty push, or the other workers would wait for it.
            case Message.PUSH_ROWS -> Math.max(1, (count + perPush - 1) / perPush);
            default -> 1;
        };
        sent = 0;
        done = 0;
        return messages > 0 && super.ask(kind);
    }

    @Override
    boolean hasPushed() {
        return pushes > 0;
    }

    @Override
    void restart() {
        sent = done;
    }

    @Override
    boolean send() {
        int max = synchronous && asked == Message.PUSH_ROWS ? Integer.MAX_VALUE : Message.MAX_IN_FLIGHT;
        int end = asked == Message.JOIN ? done + 1 : messages;
        while (isOpen() && sent < end && sent - done < max) {
            if (!sendNext()) {
                return false;
            }
            sent++;
        }
        return true;
    }

    private boolean sendNext() {
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

    @Override
    void onUnknownSession(long sequence) {
        if (asked == Message.PUSH_ROWS) {
            // The messages that were not acknowledged are pushed in the new session.
            base = -done;
            sent = done;
            rejoin();
        }
    }

    @Override
    void onReply(long sequence, DirectBuffer reply, int offset, int length) {
        switch (asked) {
            case Message.PULL_ROWS -> readRows(sequence, reply, offset, length);
            case Message.JOIN -> {
                asked = next;
                next = 0;
                sent = done;
            }
            default -> {
                if (sequence >= base + done && sequence < base + messages) {
                    done = (int) (sequence - base) + 1;
                    pushes = done == messages ? base + messages : pushes;
                    asked = done == messages ? 0 : asked;
                }
            }
        }
        if (isOpen()) {
            server.queue(this);
        }
    }

    private void readRows(long sequence, DirectBuffer reply, int offset, int length) {
        int from = done * perPull;
        int n = Math.min(perPull, count - from);
        if (sequence != base + done || length != 4 * n * width) {
            return;
        }
        for (int i = 0; i < n; i++) {
            rows.putBytes(4 * width * places[from + i], reply, offset + 4 * width * i, 4 * width);
        }
        if (++done == messages) {
            pulls = base + messages;
            asked = 0;
        }
    }
}
