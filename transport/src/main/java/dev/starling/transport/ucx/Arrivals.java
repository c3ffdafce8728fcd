package dev.starling.transport.ucx;

import dev.starling.transport.spi.Inbox;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableRingBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;
import org.openucx.jucx.ucp.UcpEndpoint;

/**
 * Puts what comes in the order in which each link sent it: messages go to the inbox, or are kept if nobody wants them
 * at the moment; writes go into registered memory.
 */
final class Arrivals {
    private static final int MAX_HEADER = Envelope.WRITE_LENGTH + UcxWire.MAX_MESSAGE_BEHIND;

    private final Long2ObjectHashMap<Inflow> inflows = new Long2ObjectHashMap<>();
    private final List<UcpEndpoint> accepted;
    private final List<UcpEndpoint> failed;
    private final Registrations registrations;
    private final ExpandableRingBuffer kept = new ExpandableRingBuffer();
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer data = new UnsafeBuffer(0, 0);
    private final ExpandableRingBuffer.MessageConsumer keptConsumer = this::handOverKept;
    private Inbox inbox;
    private int room;
    private int taken;
    private Throwable failure;

    /**
     * Begins with nothing.
     *
     * @param accepted endpoints of peers
     * @param failed where those go that are to be closed
     */
    Arrivals(List<UcpEndpoint> accepted, List<UcpEndpoint> failed, Registrations registrations) {
        this.accepted = accepted;
        this.failed = failed;
        this.registrations = registrations;
    }

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

    /** Returns whether nothing has been handed over yet and something may be. */
    boolean isIdle() {
        return taken == 0 && room > 0;
    }

    /** Returns whether messages wait to be wanted. */
    boolean keepsMessages() {
        return !kept.isEmpty();
    }

    Iterable<Inflow> inflows() {
        return inflows.values();
    }

    /** Forgets the links that came by an endpoint. */
    void forget(UcpEndpoint endpoint) {
        inflows.values().removeIf(inflow -> inflow.endpoint() == endpoint);
    }

    /** Takes a message from UCX. */
    void message(long address, int length, UcpEndpoint replyTo) {
        if (length < Envelope.LENGTH) {
            return;
        }
        view.wrap(address, length);
        Inflow inflow = inflow(view, replyTo);
        long sequence = Envelope.sequence(view, 0);
        if (sequence != inflow.expected()) {
            inflow.keep(sequence, new Inflow.Early(0, bytes(view)));
            return;
        }
        inflow.advance();
        handOver(view, Envelope.LENGTH, length - Envelope.LENGTH);
        takeEarly(inflow);
    }

    /** Takes a piece of a put from UCX. */
    void write(long header, int headerLength, long address, int length, UcpEndpoint replyTo) {
        if (headerLength < Envelope.WRITE_LENGTH || headerLength > MAX_HEADER) {
            return;
        }
        view.wrap(header, headerLength);
        data.wrap(address, length);
        Inflow inflow = inflow(view, replyTo);
        long sequence = Envelope.sequence(view, 0);
        if (sequence != inflow.expected()) {
            byte[] bytes = new byte[headerLength + length];
            view.getBytes(0, bytes, 0, headerLength);
            data.getBytes(0, bytes, headerLength, length);
            inflow.keep(sequence, new Inflow.Early(headerLength, bytes));
            return;
        }
        inflow.advance();
        write(inflow, data, 0, length);
        takeEarly(inflow);
    }

    /** A link wants to hear when all it sent has come. */
    void goodbye(long address, int length, UcpEndpoint replyTo) {
        if (length < Envelope.LENGTH) {
            return;
        }
        view.wrap(address, length);
        Inflow inflow = inflow(view, replyTo);
        if (inflow.expected() == Envelope.sequence(view, 0)) {
            inflow.leave();
        }
    }

    // The first message of a link, and a goodbye, come with the endpoint for answers.
    private Inflow inflow(DirectBuffer envelope, UcpEndpoint replyTo) {
        long link = Envelope.link(envelope, 0);
        Inflow inflow = inflows.get(link);
        if (inflow == null) {
            inflow = new Inflow(link);
            inflows.put(link, inflow);
        }
        if (replyTo != null && inflow.endpoint() == null) {
            for (UcpEndpoint endpoint : accepted) {
                if (endpoint.getNativeId().equals(replyTo.getNativeId())) {
                    inflow.answerTo(endpoint);
                }
            }
        }
        return inflow;
    }

    private void takeEarly(Inflow inflow) {
        for (Inflow.Early next = inflow.next(); next != null; next = inflow.next()) {
            inflow.advance();
            data.wrap(next.bytes());
            if (next.head() > 0) {
                view.wrap(next.bytes(), 0, next.head());
                write(inflow, data, next.head(), data.capacity() - next.head());
            } else {
                handOver(data, Envelope.LENGTH, data.capacity() - Envelope.LENGTH);
            }
        }
    }

    private void write(Inflow inflow, DirectBuffer from, int offset, int length) {
        if (!registrations.write(Envelope.registration(view, 0), Envelope.token(view, 0), Envelope.offset(view, 0),
                from, offset, length)) {
            failed.add(inflow.endpoint());
            return;
        }
        if (Envelope.isLast(view, 0)) {
            inflow.put();
        }
        if (view.capacity() > Envelope.WRITE_LENGTH) {
            handOver(view, Envelope.WRITE_LENGTH, view.capacity() - Envelope.WRITE_LENGTH);
        }
    }

    private static byte[] bytes(DirectBuffer buffer) {
        byte[] bytes = new byte[buffer.capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
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
