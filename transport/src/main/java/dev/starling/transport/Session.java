package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The frames of one connection: numbered in each direction and, from the moment at which both sides agree on a key,
 * sealed with it, or protected where the connection leaves the host.
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
    /** Protect what is sent and what arrives; {@code null} for plain frames. */
    private @Nullable FrameProtection outgoing;
    private @Nullable FrameProtection incoming;
    /** The number of frames since the last that was accepted which turned out not to be authentic. */
    private int forged;
    private long sent;
    private long expected = 1;
    private long lastSentNs;
    private long lastReceivedNs;
    /** As that, by the time that this process has listened. */
    private long lastHeardNs;
    private String failure = "";

    Session(TransportContext context, Link link, String address, long now) {
        this.context = context;
        this.link = link;
        this.address = address;
        lastReceivedNs = now;
        lastHeardNs = context.attended().nanoTime();
        lastSentNs = now - context.livenessTimeoutNs(); // Once connected, a heartbeat is due.
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

    /** Protects all following frames but those of the handshake. */
    void protect(FrameProtection newOutgoing, FrameProtection newIncoming) {
        outgoing = newOutgoing;
        incoming = newIncoming;
    }

    /** Returns whether frames are protected by more than a checksum. */
    boolean isProtected() {
        return incoming != null;
    }

    /** Forgets the peer's number and the keys, so that a handshake can begin again. */
    void forget() {
        peer = NONE;
        key = NONE;
        outgoing = null;
        incoming = null;
    }

    long lastReceivedNs() {
        return lastReceivedNs;
    }

    /** Returns for how long the peer has been silent while this process listened. */
    long silentNs() {
        return context.attended().nanoTime() - lastHeardNs;
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
        return offer(head, Frame.HEADER, handshakeBody, 0, body.length, null);
    }

    /** Sends a frame; bytes of {@link #head} behind the common header must be in place. */
    int send(byte type, int headLength, @Nullable DirectBuffer body, int offset, int length) {
        return send(type, headLength, body, offset, length, null);
    }

    /** Sends a frame. If {@code source}, in which its body lies, is not null, the wire may read it there for longer. */
    int send(byte type, int headLength, @Nullable DirectBuffer body, int offset, int length,
            @Nullable MemoryRegion source) {
        int code;
        if (outgoing != null) {
            code = offerProtected(outgoing, type, headLength, body, offset, length);
        } else {
            Frame.seal(context.bodies(), head, headLength, type, peer, sent + 1, key, body, offset, length);
            code = offer(head, headLength, body, offset, length, source);
        }
        if (code == Wire.SENT) {
            sent++;
            lastSentNs = context.now();
            context.counters().sent++;
        }
        return code == Wire.NOT_CONNECTED ? Wire.BACK_PRESSURED : code;
    }

    private int offerProtected(FrameProtection protection, byte type, int headLength, @Nullable DirectBuffer body,
            int offset, int length) {
        int total = headLength + length + FrameProtection.TAG;
        if (!link.hasRoom(total)) {
            return Wire.BACK_PRESSURED;
        }
        return offer(protection.seal(head, headLength, type, peer, sent + 1, body, offset, length), total, null, 0, 0,
                null);
    }

    /** A failure of one link, such as a lack of room, ends this connection and no other. */
    private int offer(DirectBuffer header, int headLength, @Nullable DirectBuffer body, int offset, int length,
            @Nullable MemoryRegion source) {
        int code;
        if (source != null) {
            source.hold();
        }
        try {
            code = source == null ? link.offer(header, 0, headLength, body, offset, length)
                    : link.offerInPlace(header, 0, headLength, Objects.requireNonNull(body), offset, length,
                            source.release());
            failure = code == Wire.CLOSED ? "the link to " + address + " closed" : failure;
        } catch (TransportException e) {
            code = Wire.CLOSED;
            failure = String.valueOf(e.getMessage());
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

    /** Returns a protected frame as it was sent, valid until the next call, or {@code null} if it is not authentic. */
    @Nullable DirectBuffer open(DirectBuffer frame, int at) {
        DirectBuffer opened = Objects.requireNonNull(incoming).open(frame, at, Frame.length(frame, at), expected);
        forged += opened == null ? 1 : 0;
        return opened;
    }

    /** Returns what is known of why frames are missing, or an empty text. */
    String suspicion() {
        return forged == 0 ? "" : "; refused as changed on their way, or forged: " + forged;
    }

    /** Returns the number that the next frame of the peer must have. */
    long expected() {
        return expected;
    }

    /** Counts a frame that was accepted. */
    void received() {
        expected++;
        forged = 0;
        renewLiveness();
    }

    /** Begins the liveness timeout again: the peer has given a sign of life. */
    void renewLiveness() {
        lastReceivedNs = context.now();
        lastHeardNs = context.attended().nanoTime();
    }
}
