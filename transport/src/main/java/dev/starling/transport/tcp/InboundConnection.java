package dev.starling.transport.tcp;

import dev.starling.transport.spi.Inbox;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A connection that a peer's link has opened: delivers its messages. Until its peer is proven it has a small buffer and
 * is in the care of the {@link Gate}.
 */
final class InboundConnection {
    /**
     * Bytes that are read beyond the end of a message. They are moved to the front of the buffer, so that the next
     * message is received where this one was, which is still in the processor's cache.
     */
    private static final int READ_AHEAD = 4 << 10;
    /** Bytes that are read while the length of the next message is not known. */
    private static final int FIRST_READ = TcpWire.MAX_MESSAGE + READ_AHEAD;
    private static final int MAX_READS = 8;
    /** Shorter rests of a body are received with what follows, in one call. */
    private static final int MIN_PLACED = 16 << 10;
    private static final int MAX_HEADER = 256;

    private static final System.Logger LOG = System.getLogger(InboundConnection.class.getName());

    private final TcpWire wire;
    private final SocketChannel channel;
    private final InetSocketAddress peer;
    private final long sinceNs;
    private final UnsafeBuffer buffer = new UnsafeBuffer(0, 0);
    private MemorySegment memory;
    private ByteBuffer in;
    /** The bytes of the buffer from {@code position} to {@code limit} have yet to be processed. */
    private int position;
    private int limit;
    /** Bytes that the next message lacks, or 0 if its length is not known. */
    private int lacking;
    private long peerWire;
    private boolean greeted;
    private boolean asksForTicket;
    private boolean proven;
    private boolean closed;
    private boolean delayed;
    /** Set if the next message has arrived before one of another connection that precedes it. */
    private boolean early;
    /** Set while no selector reports what arrives: the wire would be polled without end, but reads nothing more. */
    private boolean deaf;
    private Lane lane;
    /** Where the body of the present message is being received, or {@code null}; its header is kept aside. */
    private Inbox.@Nullable Place place;
    private final UnsafeBuffer header = new UnsafeBuffer(new byte[MAX_HEADER]);
    private final UnsafeBuffer body = new UnsafeBuffer(0, 0);
    private final Window window = new Window();
    private final ByteBuffer[] scattered = new ByteBuffer[2];
    private int headerLength;
    private int bodyLength;
    private int bodyReceived;

    InboundConnection(TcpWire wire, SocketChannel channel) throws IOException {
        this.wire = wire;
        this.channel = channel;
        peer = (InetSocketAddress) channel.getRemoteAddress();
        sinceNs = wire.nowNs();
        lane = new Lane(this, wire.newTicket());
        lane.received(sinceNs);
        use(wire.buffers().acquireSmall());
    }

    private void use(MemorySegment newMemory) {
        memory = newMemory;
        buffer.wrap(memory.address(), (int) memory.byteSize());
        in = Buffers.view(memory.address(), buffer.capacity());
    }

    void register(Selector selector) throws IOException {
        channel.register(selector, SelectionKey.OP_READ, this);
    }

    /** Stops the selection by a selector. */
    void deregister(Selector selector) {
        channel.keyFor(selector).cancel();
    }

    InetAddress host() {
        return peer.getAddress();
    }

    /** Returns when the connection was accepted. */
    long sinceNs() {
        return sinceNs;
    }

    Lane lane() {
        return lane;
    }

    boolean isProven() {
        return proven;
    }

    boolean isClosed() {
        return closed;
    }

    /** Returns whether messages have arrived that wait until the wire may deliver more. */
    boolean isDelayed() {
        return delayed;
    }

    /** Returns whether the wire of this number opened this connection. */
    boolean isFrom(long number) {
        return greeted && peerWire == number;
    }

    /** Notes that the peer has proven that it has the secret. */
    void prove() {
        proven = true;
    }

    /** Returns whether the peer may open further connections, if it gets a ticket. */
    boolean asksForTicket() {
        return asksForTicket;
    }

    /** Sends the peer a ticket for further connections. */
    void sendTicket() {
        send(wire.ticket(lane.ticket()));
    }

    /** Reads what has arrived and processes it; returns the amount of work done. */
    int receive() {
        int work = 0;
        process();
        for (int i = 0; i < MAX_READS && !closed && !delayed; i++) {
            ByteBuffer into = free();
            int missing = place == null ? 0 : bodyLength - bodyReceived;
            int room = into.remaining() + missing;
            int length = read(into, missing);
            if (length <= 0) {
                break;
            }
            work++;
            lane.received(wire.nowNs());
            int placed = Math.min(length, missing);
            bodyReceived += placed;
            limit += length - placed;
            process();
            if (length < room) {
                break;
            }
        }
        return work;
    }

    /** Reads into the place of the present body, as far as it is missing, and behind it into the buffer. */
    private int read(ByteBuffer into, int missing) {
        try {
            int length;
            if (place != null && missing > 0) {
                scattered[0] = window.of(place.address() + bodyReceived, missing);
                scattered[1] = into;
                length = (int) channel.read(scattered);
            } else {
                length = channel.read(into);
            }
            if (length < 0) {
                end();
            }
            return length;
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "the connection from {0} broke: {1}", peer, e.getMessage());
            close();
            return -1;
        }
    }

    /** Returns as much of the free end of the buffer as is to be filled. */
    private ByteBuffer free() {
        boolean grows = proven && memory.byteSize() == Buffers.SMALL;
        int left = limit - position;
        if (grows || left <= READ_AHEAD || limit + lacking > buffer.capacity()) {
            MemorySegment old = memory;
            if (grows) {
                use(wire.buffers().acquireLarge());
            }
            MemorySegment.copy(old, position, memory, 0, left);
            position = 0;
            limit = left;
            if (grows) {
                wire.buffers().release(old);
            }
        }
        int end = limit + (lacking > 0 ? lacking + READ_AHEAD : FIRST_READ);
        return in.clear().position(limit).limit(Math.min(buffer.capacity(), end));
    }

    private void process() {
        boolean wasEarly = early;
        delayed = false;
        early = false;
        boolean progress = true;
        while (progress && !closed) {
            Inbox.Place present = place;
            progress = !greeted ? greet() : present == null ? message() : placedMessage(present);
        }
        boolean waits = early && wasEarly;
        if (waits != deaf && !closed) {
            deaf = waits;
            channel.keyFor(wire.selector()).interestOps(waits ? 0 : SelectionKey.OP_READ);
        }
    }

    private boolean greet() {
        if (limit - position < Unit.PREAMBLE) {
            return false;
        }
        if (Unit.isRail(buffer, position)) {
            return join(wire.lane(Unit.ticket(buffer, position)));
        }
        if (!Unit.isPreamble(buffer, position)) {
            refuse("it does not speak the protocol of this wire");
            return false;
        }
        peerWire = Unit.wire(buffer, position);
        asksForTicket = Unit.asksForTicket(buffer, position);
        position += Unit.PREAMBLE;
        greeted = true;
        return send(wire.reply());
    }

    /** Becomes a further connection of a lane, whose peer is proven; it is {@code null} if there is no such ticket. */
    private boolean join(@Nullable Lane joined) {
        if (joined == null || !joined.add(this)) {
            refuse("it has no valid ticket");
            return false;
        }
        lane = joined;
        peerWire = joined.first().peerWire;
        position += Unit.PREAMBLE;
        greeted = true;
        wire.admit(this);
        return !closed && send(wire.reply());
    }

    /** Sends a few bytes to the peer; only one that does not read leaves no room for them. */
    private boolean send(ByteBuffer bytes) {
        try {
            int length = bytes.remaining();
            if (channel.write(bytes) == length) {
                return true;
            }
            refuse("it does not read");
        } catch (IOException e) {
            close();
        }
        return false;
    }

    private boolean message() {
        lacking = 0;
        if (limit - position < Unit.MESSAGE_HEADER) {
            return false;
        }
        int kind = Unit.kind(buffer, position);
        int part = Unit.partLength(buffer, position);
        int length = Unit.messageLength(buffer, position);
        if (kind != Unit.MESSAGE && kind != Unit.PARTS || part > MAX_HEADER || part > length && length >= 0) {
            refuse("it sent a unit of an unknown kind");
            return false;
        }
        if (length < 0 || length > (proven ? TcpWire.MAX_MESSAGE : TcpWire.MAX_UNPROVEN_MESSAGE)) {
            refuse("it announced a message of " + length + " bytes");
            return false;
        }
        int head = Unit.MESSAGE_HEADER;
        if (Unit.isNumbered(buffer, position)) {
            head += Unit.NUMBER;
            if (!proven) {
                refuse("it numbered a message");
                return false;
            }
            if (limit - position < head) {
                return false;
            }
            if (!lane.isNext(Unit.number(buffer, position))) {
                delayed = true;
                early = true;
                return false;
            }
        }
        int unit = Unit.messageUnit(length) + head - Unit.MESSAGE_HEADER;
        if (limit - position < unit) {
            lacking = unit - (limit - position);
            return kind == Unit.PARTS && proven && place(head, part, length - part);
        }
        if (!wire.hasRoom()) {
            delayed = true;
            return false;
        }
        int at = position + head;
        position += unit;
        lane.delivered();
        delayed = proven; // If the inbox throws an exception, the next poll continues here.
        wire.deliver(this, buffer, at, length);
        delayed = false;
        return true;
    }

    /** Begins to receive a body in its place, if it is long, and the header has arrived and permits that. */
    private boolean place(int head, int part, int length) {
        int begin = position + head + part;
        if (limit < begin || length - (limit - begin) < MIN_PLACED) {
            return false;
        }
        Inbox.Place found = wire.place(buffer, position + head, part, length);
        if (found == null) {
            return false;
        }
        place = found;
        lacking = 0;
        header.putBytes(0, buffer, position + head, part);
        headerLength = part;
        bodyLength = length;
        bodyReceived = limit - begin;
        body.wrap(found.address(), length);
        body.putBytes(0, buffer, begin, bodyReceived);
        position = limit;
        return false;
    }

    /** Delivers a message whose body has been received in its place. */
    private boolean placedMessage(Inbox.Place used) {
        int padding = Unit.padding(headerLength + bodyLength);
        if (bodyReceived < bodyLength || limit - position < padding) {
            return false;
        }
        if (!wire.hasRoom()) {
            delayed = true;
            return false;
        }
        position += padding;
        lane.delivered();
        place = null;
        delayed = true;
        try {
            wire.deliver(this, header, headerLength, body, bodyLength);
        } finally {
            used.abandon();
        }
        delayed = false;
        return true;
    }

    private void refuse(String why) {
        LOG.log(Level.DEBUG, "closed the connection from {0}: {1}", peer, why);
        close();
    }

    /** Closes the connection of a peer that is unproven, which may try again later. */
    void turnAway() {
        if (!greeted || send(wire.busy())) {
            close();
        }
    }

    /** Closes the connection, which its peer has closed; others of the lane may have messages that are complete. */
    private void end() {
        if (position == limit && place == null) {
            lane.remove(this);
        }
        close();
    }

    /** Closes the connection, and the others of its lane. */
    void close() {
        if (!closed) {
            closed = true;
            TcpWire.close(channel);
            if (place != null) {
                place.abandon();
                place = null;
            }
            wire.buffers().release(memory);
            wire.forget(this);
            lane.close(this);
        }
    }
}
