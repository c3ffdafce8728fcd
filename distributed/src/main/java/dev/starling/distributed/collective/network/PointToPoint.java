package dev.starling.distributed.collective.network;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Transfer;
import dev.starling.transport.Endpoint;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Transfers of bytes between two ranks. The receiver first sends a WANT, and the sender sends data only after that, so
 * no data has to be buffered. Transfers with the same tag between the same ranks match in the order of the calls.
 *
 * <p>Messages: type i32, tag i32, size of all in bytes i64, payload.
 */
public final class PointToPoint {
    private static final int WANT = 1;
    private static final int DATA = 2;
    private static final int BODY = 16;
    private static final int PAYLOAD = 24 << 10;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private final EpochMessages messages;
    private final Transfers[] sends;
    private final Transfers[] receives;
    private final Want[] wants;
    private Want spare;
    private int pending;
    private final UnsafeBuffer out = new UnsafeBuffer(ByteBuffer.allocateDirect(EpochMessages.HEADER + BODY + PAYLOAD));
    private final MemorySegment outMemory = MemorySegment.ofBuffer(out.byteBuffer());

    /** A receive for which a peer waits; oldest first. */
    private static final class Want {
        private int tag;
        private long size;
        private Want next;
    }

    /** Transfers to or from one peer, oldest first. */
    private static final class Transfers {
        private Transfer first;

        void add(Transfer transfer) {
            transfer.next(null);
            if (first == null) {
                first = transfer;
                return;
            }
            Transfer end = first;
            while (end.next() != null) {
                end = end.next();
            }
            end.next(transfer);
        }

        void remove(Transfer transfer) {
            if (first == transfer) {
                first = transfer.next();
                return;
            }
            Transfer before = first;
            while (before.next() != transfer) {
                before = before.next();
            }
            before.next(transfer.next());
        }

        /** Returns the oldest transfer of a tag, or {@code null}. */
        Transfer oldest(int tag) {
            Transfer found = first;
            while (found != null && found.tag != tag) {
                found = found.next();
            }
            return found;
        }
    }

    public PointToPoint(EpochMessages messages) {
        this.messages = messages;
        int world = messages.fabric().world();
        sends = new Transfers[world];
        receives = new Transfers[world];
        wants = new Want[world];
        for (int rank = 0; rank < world; rank++) {
            sends[rank] = new Transfers();
            receives[rank] = new Transfers();
        }
    }

    public void start(Transfer transfer) {
        transfer.restart();
        (transfer.sending ? sends : receives)[transfer.peer].add(transfer);
        pending++;
    }

    public boolean isBusy() {
        return pending > 0;
    }

    /** Returns whether a transfer to or from a rank is pending. */
    public boolean awaits(int rank) {
        return sends[rank].first != null || receives[rank].first != null;
    }

    /** Advances the transfers; returns the amount of work done. */
    public int doWork() {
        int work = 0;
        for (int rank = 0; pending > 0 && rank < sends.length; rank++) {
            for (Transfer t = receives[rank].first; t != null; t = t.next()) {
                if (!t.isAgreed()) {
                    t.agreed(send(t, WANT, 0));
                    work += t.isAgreed() ? 1 : 0;
                    if (!t.isAgreed()) {
                        break;
                    }
                }
            }
            for (Transfer t = sends[rank].first; t != null; t = t.next()) {
                if (sends[rank].oldest(t.tag) == t) {
                    work += push(t);
                }
            }
        }
        return work;
    }

    private int push(Transfer t) {
        if (!t.isAgreed() && !match(t)) {
            return 0;
        }
        int work = 0;
        long size = t.bytes.byteSize();
        do {
            int length = (int) Math.min(PAYLOAD, size - t.done());
            if (!send(t, DATA, length)) {
                return work;
            }
            t.advance(length);
            work++;
        } while (t.done() < size);
        sends[t.peer].remove(t);
        finish(t);
        return work;
    }

    private void finish(Transfer t) {
        pending--;
        t.task().succeed(null);
    }

    private boolean match(Transfer t) {
        Want before = null;
        Want want = wants[t.peer];
        while (want != null && want.tag != t.tag) {
            before = want;
            want = want.next;
        }
        if (want == null) {
            return false;
        }
        if (want.size != t.bytes.byteSize()) {
            int rank = messages.fabric().rank();
            throw new CollectiveMismatchException(rank, t.peer, "rank " + rank + " is " + t + ", but rank " + t.peer
                    + " is receiving " + want.size + " bytes; pass the same size on both ranks");
        }
        if (before == null) {
            wants[t.peer] = want.next;
        } else {
            before.next = want.next;
        }
        want.next = spare;
        spare = want;
        t.agreed(true);
        return true;
    }

    private boolean send(Transfer t, int type, int length) {
        messages.header(out, EpochMessages.POINT_TO_POINT);
        int at = EpochMessages.HEADER;
        out.putInt(at, type, ORDER);
        out.putInt(at + 4, t.tag, ORDER);
        out.putLong(at + 8, t.bytes.byteSize(), ORDER);
        MemorySegment.copy(t.bytes, t.done(), outMemory, at + BODY, length);
        return messages.send(t.peer, out, 0, at + BODY + length) == Endpoint.OK;
    }

    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        if (length < BODY) {
            return;
        }
        int tag = buffer.getInt(offset + 4, ORDER);
        long size = buffer.getLong(offset + 8, ORDER);
        switch (buffer.getInt(offset, ORDER)) {
            case WANT -> onWant(from, tag, size);
            case DATA -> onData(from, tag, buffer, offset + BODY, length - BODY);
            default -> { }
        }
    }

    private void onWant(int from, int tag, long size) {
        Want want = spare == null ? new Want() : spare;
        spare = want.next;
        want.tag = tag;
        want.size = size;
        want.next = null;
        if (wants[from] == null) {
            wants[from] = want;
            return;
        }
        Want end = wants[from];
        while (end.next != null) {
            end = end.next;
        }
        end.next = want;
    }

    private void onData(int from, int tag, DirectBuffer buffer, int offset, int length) {
        Transfer t = receives[from].oldest(tag);
        if (t == null || length > t.bytes.byteSize() - t.done() || length > PAYLOAD) {
            return;
        }
        buffer.getBytes(offset, out, 0, length);
        MemorySegment.copy(outMemory, 0, t.bytes, t.done(), length);
        t.advance(length);
        if (t.done() == t.bytes.byteSize()) {
            receives[from].remove(t);
            finish(t);
        }
    }

    public void fail(RuntimeException why) {
        for (int rank = 0; rank < sends.length; rank++) {
            fail(sends[rank], why);
            fail(receives[rank], why);
        }
        pending = 0;
    }

    private static void fail(Transfers transfers, RuntimeException why) {
        for (Transfer t = transfers.first; t != null; t = t.next()) {
            t.task().fail(why);
        }
        transfers.first = null;
    }
}
