package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The frames of one connection: numbered in each direction and, from the moment at which both sides agree on a key,
 * sealed with it.
 */
final class Session {
    private static final long NONE = 0;

    private final TransportContext context;
    private final Link link;
    private final String address;
    private final long number = Authentication.randomLong();
    private final UnsafeBuffer head = new UnsafeBuffer(new byte[Frame.PUT_HEADER]);
    private final UnsafeBuffer handshakeBody = new UnsafeBuffer(0, 0);
    private long peer = NONE;
    private long key = NONE;
    private long sent;
    private long expected = 1;
    private long lastSentNs;
    private long lastReceivedNs;
    private String failure = "";

    Session(TransportContext context, Link link, String address, long now) {
        this.context = context;
        this.link = link;
        this.address = address;
        lastReceivedNs = now;
    }

    /** Returns the number by which the peer addresses this side. */
    long number() {
        return number;
    }

    /** Sets the number by which this side addresses the peer. */
    void address(long newPeer) {
        peer = newPeer;
    }

    /** Seals all following frames with a key. */
    void agree(long newKey) {
        key = newKey;
    }

    /** Forgets the peer's number and the key, so that a handshake can begin again. */
    void forget() {
        peer = NONE;
        key = NONE;
    }

    long lastReceivedNs() {
        return lastReceivedNs;
    }

    long lastSentNs() {
        return lastSentNs;
    }

    /** Returns why the link returned {@link Wire#CLOSED}. */
    String failure() {
        return failure;
    }

    /** Returns the header of the next frame, for the bytes behind the common ones. */
    UnsafeBuffer head() {
        return head;
    }

    /** Sends an unnumbered frame of the handshake; returns the link's code. */
    int offer(byte type, byte[] body) {
        handshakeBody.wrap(body);
        Frame.seal(context.bodies(), head, Frame.HEADER, type, peer, 0, key, handshakeBody, 0, body.length);
        return offer(Frame.HEADER, handshakeBody, 0, body.length, null);
    }

    /** Sends a frame; bytes of {@link #head} behind the common header must be in place. */
    int send(byte type, int headLength, DirectBuffer body, int offset, int length) {
        return send(type, headLength, body, offset, length, null);
    }

    /** Sends a frame. If {@code source}, in which its body lies, is not null, the wire may read it there for longer. */
    int send(byte type, int headLength, DirectBuffer body, int offset, int length, MemoryRegion source) {
        Frame.seal(context.bodies(), head, headLength, type, peer, sent + 1, key, body, offset, length);
        int code = offer(headLength, body, offset, length, source);
        if (code == Wire.SENT) {
            sent++;
            lastSentNs = context.now();
            context.counters().sent++;
        }
        return code == Wire.NOT_CONNECTED ? Wire.BACK_PRESSURED : code;
    }

    /** A failure of one link, such as a lack of room, ends this connection and no other. */
    private int offer(int headLength, DirectBuffer body, int offset, int length, MemoryRegion source) {
        int code;
        if (source != null) {
            source.hold();
        }
        try {
            code = source == null ? link.offer(head, 0, headLength, body, offset, length)
                    : link.offerInPlace(head, 0, headLength, body, offset, length, source.release());
            failure = code == Wire.CLOSED ? "the link to " + address + " closed" : failure;
        } catch (TransportException e) {
            code = Wire.CLOSED;
            failure = e.getMessage();
        }
        if (source != null && code != Wire.SENT) {
            source.drop();
        }
        return code;
    }

    /** Returns whether a frame is sealed with the agreed key. */
    boolean isSealed(DirectBuffer frame, int at, DirectBuffer body, int bodyOffset, int bodyLength) {
        return key != NONE && Frame.isSealed(context.bodies(), frame, at, body, bodyOffset, bodyLength, key);
    }

    /** Returns the number that the next frame of the peer must have. */
    long expected() {
        return expected;
    }

    /** Counts a frame that was accepted. */
    void received() {
        expected++;
        renewLiveness();
    }

    /** Begins the liveness timeout again: the peer has given a sign of life. */
    void renewLiveness() {
        lastReceivedNs = context.now();
    }
}
