package dev.starling.transport.local;

import dev.starling.transport.TransportException;
import dev.starling.transport.option.WireOptions;
import dev.starling.transport.spi.Backoff;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.MessageHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;
import org.jspecify.annotations.Nullable;

/**
 * A wire between threads: each process of the cluster is a thread with one ring buffer, into which all others write.
 */
final class LocalWire implements Wire {
    private static final int CAPACITY = 4 << 20;
    private static final int MESSAGE = 1;
    private static final Map<String, LocalWire> OPEN = new ConcurrentHashMap<>();
    private static final AtomicLong COUNT = new AtomicLong();

    private final String address;
    private final RingBuffer ring = new ManyToOneRingBuffer(new UnsafeBuffer(
            ByteBuffer.allocateDirect(CAPACITY + RingBufferDescriptor.TRAILER_LENGTH)));
    private Backoff backoff = Backoff.forThreads(1);
    /** Set by each poll. */
    @SuppressWarnings("NullAway.Init")
    private Inbox inbox;
    private final MessageHandler handler = this::onMessage;
    private volatile boolean closed;

    private LocalWire(String address) {
        this.address = address;
    }

    static LocalWire open(WireConfig config) {
        WireOptions.of(config, "local", Set.of());
        String address = config.port() == 0 ? "thread-" + COUNT.incrementAndGet() : "port-" + config.port();
        LocalWire wire = new LocalWire(address);
        if (OPEN.putIfAbsent(address, wire) != null) {
            throw new TransportException(TransportException.Problem.IN_USE, "the address " + address + " is in use",
                    "choose another port, or 0 for any");
        }
        return wire;
    }

    @Override
    public String address() {
        return address;
    }

    @Override
    public int maxMessageLength() {
        return ring.maxMsgLength();
    }

    @Override
    public Link open(String peer) {
        return new ToRing(peer, ring);
    }

    @Override
    public int poll(Inbox to, int limit) {
        inbox = to;
        return ring.read(handler, limit);
    }

    private void onMessage(int type, MutableDirectBuffer buffer, int offset, int length) {
        inbox.onMessage(buffer, offset, length);
    }

    @Override
    public void pollingThreads(int threads) {
        backoff = Backoff.forThreads(threads);
    }

    @Override
    public void idle(long idleNs) {
        backoff.pause(idleNs);
    }

    @Override
    public void close() {
        closed = true;
        OPEN.remove(address, this);
    }

    private static final class ToRing implements Link {
        private final String address;
        private final RingBuffer own;
        private @Nullable LocalWire peer;
        private boolean closed;

        ToRing(String address, RingBuffer own) {
            this.address = address;
            this.own = own;
        }

        @Override
        public int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
                int bodyOffset, int bodyLength) {
            if (closed) {
                return Wire.CLOSED;
            }
            LocalWire to = peer != null ? peer : OPEN.get(address);
            if (to == null) {
                return Wire.NOT_CONNECTED;
            }
            peer = to;
            if (to.closed) {
                return own.size() > 0 ? Wire.BACK_PRESSURED : Wire.CLOSED;
            }
            RingBuffer ring = to.ring;
            int index = ring.tryClaim(MESSAGE, headerLength + bodyLength);
            if (index < 0) {
                return Wire.BACK_PRESSURED;
            }
            ring.buffer().putBytes(index, header, headerOffset, headerLength);
            if (bodyLength > 0) {
                ring.buffer().putBytes(index + headerLength, body, bodyOffset, bodyLength);
            }
            ring.commit(index);
            return Wire.SENT;
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
