package dev.starling.transport.ucx;

import dev.starling.transport.spi.Inbox;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableRingBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;
import org.openucx.jucx.ucp.UcpEndpoint;

/**
 * Puts what comes in the order in which each link sent it: messages go to the inbox, or are kept if nobody wants them
 * at the moment; writes go into registered memory.
 *
 * <p>Anybody may send, whether he knows the secret or not. So what is kept for others is limited: the bytes of messages
 * that came before their turn, the links whose endpoint is not known yet, and one link for each endpoint. Who takes
 * more than that is no longer listened to, and his endpoint is closed.
 */
final class Arrivals {
    private static final int MAX_HEADER = Envelope.WRITE_LENGTH + UcxWire.MAX_MESSAGE_BEHIND;
    /** A long message on a slow way may be overtaken by all that is under way on a fast one. */
    private static final long MAX_EARLY = Math.min(1 << 30, Runtime.getRuntime().maxMemory() / 4);
    /** Links whose first message was overtaken. */
    private static final int MAX_UNKNOWN = 256;

    private static final System.Logger LOG = System.getLogger(Arrivals.class.getName());

    private final Long2ObjectHashMap<Inflow> inflows = new Long2ObjectHashMap<>();
    /** Those whose endpoint is not known, the oldest first. */
    private final Queue<Inflow> unknown = new ArrayDeque<>();
    private final List<UcpEndpoint> accepted;
    private final List<UcpEndpoint> failed;
    private final Registrations registrations;
    private final long mostEarly;
    private final ExpandableRingBuffer kept = new ExpandableRingBuffer();
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer data = new UnsafeBuffer(0, 0);
    private final ExpandableRingBuffer.MessageConsumer keptConsumer = this::handOverKept;
    private long earlyBytes;
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
        this(accepted, failed, registrations, MAX_EARLY);
    }

    Arrivals(List<UcpEndpoint> accepted, List<UcpEndpoint> failed, Registrations registrations, long mostEarly) {
        this.mostEarly = mostEarly;
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
            throw unchecked(thrown);
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
        inflows.values().removeIf(inflow -> {
            if (inflow.endpoint() != endpoint) {
                return false;
            }
            earlyBytes -= inflow.earlyBytes();
            return true;
        });
    }

    /** Returns how much memory all take that came before their turn. */
    long earlyBytes() {
        return earlyBytes;
    }

    /** Takes a message from UCX. */
    void message(long address, int length, UcpEndpoint replyTo) {
        if (length < Envelope.LENGTH) {
            return;
        }
        view.wrap(address, length);
        Inflow inflow = inflow(view, replyTo);
        long sequence = Envelope.sequence(view, 0);
        if (!inflow.isNext(sequence)) {
            if (inflow.isEarly(sequence)) {
                keep(inflow, sequence, new Inflow.Early(0, bytes(view)));
            }
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
        if (!inflow.isNext(sequence)) {
            if (inflow.isEarly(sequence)) {
                byte[] bytes = new byte[headerLength + length];
                view.getBytes(0, bytes, 0, headerLength);
                data.getBytes(0, bytes, headerLength, length);
                keep(inflow, sequence, new Inflow.Early(headerLength, bytes));
            }
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
        if (inflow.isNext(Envelope.sequence(view, 0))) {
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
            unknown.add(inflow);
            if (unknown.size() > MAX_UNKNOWN) {
                Inflow oldest = unknown.remove();
                inflows.remove(oldest.link());
                earlyBytes -= oldest.earlyBytes();
            }
        }
        if (replyTo != null && inflow.endpoint() == null) {
            for (UcpEndpoint endpoint : accepted) {
                if (endpoint.getNativeId().equals(replyTo.getNativeId())) {
                    answerTo(inflow, endpoint);
                }
            }
        }
        return inflow;
    }

    private void answerTo(Inflow inflow, UcpEndpoint endpoint) {
        boolean another = false;
        for (Inflow other : inflows.values()) {
            another |= other.endpoint() == endpoint;
        }
        unknown.remove(inflow);
        inflow.answerTo(endpoint);
        if (another || inflow.isBroken()) {
            breakOff(inflow, "comes by the endpoint of another");
        }
    }

    private void keep(Inflow inflow, long sequence, Inflow.Early message) {
        inflow.keep(sequence, message);
        earlyBytes += message.cost();
        while (earlyBytes > mostEarly) {
            Inflow most = inflow;
            for (Inflow other : inflows.values()) {
                most = other.earlyBytes() > most.earlyBytes() ? other : most;
            }
            breakOff(most, "has the most of the " + earlyBytes + " bytes that came before their turn");
        }
    }

    /** Listens to a link no more; its endpoint is closed, at once or when it is known. */
    private void breakOff(Inflow inflow, String why) {
        earlyBytes -= inflow.earlyBytes();
        inflow.breakOff();
        if (inflow.endpoint() != null) {
            failed.add(inflow.endpoint());
        }
        LOG.log(Level.DEBUG, "the link {0} is ended: it {1}", inflow.link(), why);
    }

    private void takeEarly(Inflow inflow) {
        for (Inflow.Early next = inflow.next(); next != null; next = inflow.next()) {
            earlyBytes -= next.cost();
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
        boolean written;
        try {
            written = registrations.write(Envelope.registration(view, 0), Envelope.token(view, 0),
                    Envelope.offset(view, 0), from, offset, length);
        } catch (Throwable e) {
            // Of whoever sees what comes; the data may be nowhere.
            fail(e);
            written = false;
        }
        if (!written) {
            breakOff(inflow, "wrote where it may not, or what nobody could take");
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

    /** Has {@link #end} throw what was thrown below native code, which no exception may pass. */
    void fail(Throwable e) {
        if (failure == null) {
            failure = e;
        } else if (failure != e) {
            failure.addSuppressed(e);
        }
    }

    private void call(DirectBuffer buffer, int offset, int length) {
        room--;
        taken++;
        try {
            inbox.onMessage(buffer, offset, length);
        } catch (Throwable e) {
            fail(e);
        }
    }

    // Here, not in UcxWire, for nothing that this class needs may need UCX.
    static RuntimeException unchecked(Throwable e) {
        if (e instanceof Error error) {
            throw error;
        }
        return e instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(e);
    }
}
