package dev.starling.transport.ucx;

import dev.starling.transport.spi.Inbox;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableRingBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.ucp.UcpEndpoint;

/**
 * Restores the order in which each link sent its messages. They go to the inbox, or are kept while it has reached its
 * limit.
 *
 * <p>Any process may send, whether or not it has the secret. So the state that others can cause is bounded: the bytes
 * of messages that arrived early, the links whose endpoint is unknown, and one link per endpoint. A link that exceeds a
 * bound is ignored from then on, and its endpoint is closed.
 */
final class Arrivals {
    /** Maximum length of an envelope with the header of a message whose body lies apart. */
    private static final int MAX_HEADER = 128;
    /** A long message on a slow path may be overdelivered by everything in flight on a fast one. */
    private static final long MAX_EARLY_BYTES = Math.min(1 << 30, Runtime.getRuntime().maxMemory() / 4);
    /** Limit on links whose first message was overdelivered. */
    private static final int MAX_UNKNOWN = 256;

    private static final System.Logger LOG = System.getLogger(Arrivals.class.getName());

    private final Long2ObjectHashMap<Inflow> inflows = new Long2ObjectHashMap<>();
    /** Links whose endpoint is not known, the oldest first. */
    private final Queue<Inflow> unknown = new ArrayDeque<>();
    private final List<UcpEndpoint> accepted;
    private final List<UcpEndpoint> failed;
    private final long maxEarlyBytes;
    private final ExpandableRingBuffer kept = new ExpandableRingBuffer();
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer body = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer nothing = new UnsafeBuffer(0, 0);
    private final ExpandableRingBuffer.MessageConsumer keptConsumer = this::deliverKept;
    private long earlyBytes;
    private @Nullable Inbox inbox;
    private int remaining;
    private int delivered;
    private @Nullable Throwable failure;

    /**
     * Creates an empty object.
     *
     * @param accepted endpoints of peers
     * @param failed receives endpoints that are to be closed
     */
    Arrivals(List<UcpEndpoint> accepted, List<UcpEndpoint> failed) {
        this(accepted, failed, MAX_EARLY_BYTES);
    }

    Arrivals(List<UcpEndpoint> accepted, List<UcpEndpoint> failed, long maxEarlyBytes) {
        this.maxEarlyBytes = maxEarlyBytes;
        this.accepted = accepted;
        this.failed = failed;
    }

    /** Begins a poll, and first delivers kept messages. */
    void begin(Inbox newInbox, int limit) {
        inbox = newInbox;
        remaining = limit;
        delivered = 0;
        if (!kept.isEmpty()) {
            kept.consume(keptConsumer, limit);
        }
    }

    /** Ends a poll: messages that arrive until the next one are dropped. Returns the number of messages delivered. */
    int end() {
        inbox = null;
        if (failure != null) {
            Throwable thrown = failure;
            failure = null;
            throw unchecked(thrown);
        }
        return delivered;
    }

    /** Returns whether this poll has delivered nothing yet and its limit allows some. */
    boolean isIdle() {
        return delivered == 0 && remaining > 0;
    }

    /** Returns whether messages are kept for the next poll. */
    boolean keepsMessages() {
        return !kept.isEmpty();
    }

    Iterable<Inflow> inflows() {
        return inflows.values();
    }

    /** Removes the links of an endpoint. */
    void forget(UcpEndpoint endpoint) {
        inflows.values().removeIf(inflow -> {
            if (inflow.endpoint() != endpoint) {
                return false;
            }
            earlyBytes -= inflow.earlyBytes();
            return true;
        });
    }

    /** Returns the memory used by early messages of all links, in bytes. */
    long earlyBytes() {
        return earlyBytes;
    }

    /** Receives a message from UCX; if there is a header, it lies there with its envelope, and only its body apart. */
    void message(long header, int headerLength, long address, int length, UcpEndpoint replyTo) {
        boolean apart = headerLength > 0;
        if ((apart ? headerLength : length) < Envelope.LENGTH || headerLength > MAX_HEADER) {
            return;
        }
        view.wrap(apart ? header : address, apart ? headerLength : length);
        body.wrap(address, apart ? length : 0);
        Inflow inflow = inflow(view, replyTo);
        long sequence = Envelope.sequence(view);
        if (inflow.isNext(sequence)) {
            inflow.advance();
            deliver(view, body);
            processEarly(inflow);
        } else if (inflow.isEarly(sequence)) {
            keep(inflow, sequence, join(view, body));
        }
    }

    private static byte[] join(DirectBuffer head, DirectBuffer body) {
        byte[] message = new byte[head.capacity() + body.capacity()];
        head.getBytes(0, message, 0, head.capacity());
        body.getBytes(0, message, head.capacity(), body.capacity());
        return message;
    }

    /** Receives a link's request to be notified when everything that it sent has arrived. */
    void goodbye(long address, int length, UcpEndpoint replyTo) {
        if (length < Envelope.LENGTH) {
            return;
        }
        view.wrap(address, length);
        Inflow inflow = inflow(view, replyTo);
        if (inflow.isNext(Envelope.sequence(view))) {
            inflow.requestGoodbye();
        }
    }

    // The first message of a link, and a goodbye, come with the endpoint for answers.
    private Inflow inflow(DirectBuffer envelope, UcpEndpoint replyTo) {
        long link = Envelope.link(envelope);
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
            breakOff(inflow, "uses the endpoint of another link");
        }
    }

    private void keep(Inflow inflow, long sequence, byte[] message) {
        inflow.keep(sequence, message);
        earlyBytes += Inflow.cost(message);
        while (earlyBytes > maxEarlyBytes) {
            Inflow largest = inflow;
            for (Inflow other : inflows.values()) {
                largest = other.earlyBytes() > largest.earlyBytes() ? other : largest;
            }
            breakOff(largest, "has the largest share of " + earlyBytes + " bytes that arrived early");
        }
    }

    /** Ignores a link from now on; its endpoint is closed, immediately or when it becomes known. */
    private void breakOff(Inflow inflow, String why) {
        earlyBytes -= inflow.earlyBytes();
        inflow.breakOff();
        UcpEndpoint endpoint = inflow.endpoint();
        if (endpoint != null) {
            failed.add(endpoint);
        }
        LOG.log(Level.DEBUG, "closed the link {0}: it {1}", inflow.link(), why);
    }

    private void processEarly(Inflow inflow) {
        for (byte[] next = inflow.next(); next != null; next = inflow.next()) {
            earlyBytes -= Inflow.cost(next);
            inflow.advance();
            view.wrap(next);
            body.wrap(next, 0, 0);
            deliver(view, body);
        }
    }

    /** Delivers a message behind its envelope, with a body that may lie apart. */
    private void deliver(DirectBuffer head, DirectBuffer rest) {
        int length = head.capacity() - Envelope.LENGTH;
        if (inbox == null) {
            return;
        }
        if (remaining <= 0 || !kept.isEmpty()) {
            kept.append(new UnsafeBuffer(join(head, rest)), Envelope.LENGTH, length + rest.capacity());
        } else {
            call(inbox, head, Envelope.LENGTH, length, rest);
        }
    }

    private boolean deliverKept(MutableDirectBuffer buffer, int offset, int length, int headOffset) {
        call(Objects.requireNonNull(inbox), buffer, offset, length, nothing);
        return true;
    }

    /** Makes {@link #end} rethrow an exception that was thrown below native code, through which none may pass. */
    void fail(Throwable e) {
        if (failure == null) {
            failure = e;
        } else if (failure != e) {
            failure.addSuppressed(e);
        }
    }

    private void call(Inbox to, DirectBuffer buffer, int offset, int length, DirectBuffer rest) {
        remaining--;
        delivered++;
        try {
            if (rest.capacity() == 0) {
                to.onMessage(buffer, offset, length);
            } else {
                to.onParts(buffer, offset, length, rest, 0, rest.capacity());
            }
        } catch (Throwable e) {
            fail(e);
        }
    }

    // Here rather than in UcxWire, because this class must not depend on UCX.
    static RuntimeException unchecked(Throwable e) {
        if (e instanceof Error error) {
            throw error;
        }
        return e instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(e);
    }
}
