package dev.starling.transport.ucx;

import dev.starling.transport.spi.Inbox;
import java.util.HashMap;
import java.util.Map;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableRingBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.collections.Long2LongHashMap;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;

/** Puts messages in the order in which each link sent them, and keeps those that nobody wants at the moment. */
final class Arrivals {
    private final Long2LongHashMap expected = new Long2LongHashMap(0);
    private final Long2ObjectHashMap<Map<Long, byte[]>> early = new Long2ObjectHashMap<>();
    private final ExpandableRingBuffer kept = new ExpandableRingBuffer();
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer copy = new UnsafeBuffer(0, 0);
    private final ExpandableRingBuffer.MessageConsumer keptConsumer = this::handOverKept;
    private Inbox inbox;
    private int room;
    private int taken;
    private Throwable failure;

    /** Begins to hand over; first what was kept. */
    void begin(Inbox newInbox, int limit) {
        inbox = newInbox;
        room = limit;
        taken = 0;
        if (!kept.isEmpty()) {
            kept.consume(keptConsumer, limit);
        }
    }

    /** Ends handing over: what comes now is dropped. Returns the number of messages handed over. */
    int end() {
        inbox = null;
        if (failure != null) {
            Throwable thrown = failure;
            failure = null;
            throw UcxWire.unchecked(thrown);
        }
        return taken;
    }

    boolean hasRoom() {
        return room > 0;
    }

    /** Takes a message from UCX. */
    void take(long address, int length) {
        if (length < Envelope.LENGTH) {
            return;
        }
        view.wrap(address, length);
        long link = Envelope.link(view, 0);
        long sequence = Envelope.sequence(view, 0);
        long next = expected.get(link);
        if (sequence != next) {
            byte[] bytes = new byte[length - Envelope.LENGTH];
            view.getBytes(Envelope.LENGTH, bytes);
            early.computeIfAbsent(link, _ -> new HashMap<>()).put(sequence, bytes);
            return;
        }
        expected.put(link, ++next);
        handOver(view, Envelope.LENGTH, length - Envelope.LENGTH);
        if (!early.isEmpty()) {
            handOverEarly(link, next);
        }
    }

    /** Forgets a link if all its messages have come. Returns whether they have. */
    boolean finish(long address, int length) {
        if (length < Envelope.LENGTH) {
            return false;
        }
        view.wrap(address, length);
        long link = Envelope.link(view, 0);
        // A link that is not known has sent nothing, or was forgotten when it first said goodbye.
        boolean all = !expected.containsKey(link) || expected.get(link) == Envelope.sequence(view, 0);
        if (all) {
            expected.remove(link);
        }
        return all;
    }

    private void handOverEarly(long link, long first) {
        Map<Long, byte[]> waiting = early.get(link);
        if (waiting == null) {
            return;
        }
        long next = first;
        for (byte[] bytes = waiting.remove(next); bytes != null; bytes = waiting.remove(next)) {
            expected.put(link, ++next);
            copy.wrap(bytes);
            handOver(copy, 0, bytes.length);
        }
        if (waiting.isEmpty()) {
            early.remove(link);
        }
    }

    private void handOver(DirectBuffer buffer, int offset, int length) {
        if (inbox == null) {
            return;
        }
        if (room <= 0 || !kept.isEmpty()) {
            kept.append(buffer, offset, length);
            return;
        }
        call(buffer, offset, length);
    }

    private boolean handOverKept(MutableDirectBuffer buffer, int offset, int length, int headOffset) {
        call(buffer, offset, length);
        return true;
    }

    // Called from native code, which no exception may pass.
    private void call(DirectBuffer buffer, int offset, int length) {
        room--;
        taken++;
        try {
            inbox.onMessage(buffer, offset, length);
        } catch (Throwable e) {
            if (failure == null) {
                failure = e;
            } else if (failure != e) {
                failure.addSuppressed(e);
            }
        }
    }
}
