package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucs.UcsConstants;

/**
 * A UCX endpoint to a peer's listener. Until the peer is reached, the link retries; once a connected peer is gone, the
 * link is permanently over.
 */
final class UcxLink implements Link {
    private static final int RING_CAPACITY = 4 << 20;
    private static final int BULK = 64 << 10;
    private static final long MIN_RETRY_NS = 5_000_000;
    private static final long MAX_RETRY_NS = 200_000_000;
    private static final long GOODBYE_NS = 20_000_000;

    private final UcxWire wire;
    private final InetSocketAddress peer;
    private final SendRing ring = new SendRing(RING_CAPACITY);
    private State state = State.APART;
    /** {@code null} while the link is apart, and when it is over. */
    private @Nullable UcpEndpoint endpoint;
    /** {@code null} until the peer has answered. */
    private @Nullable Puts puts;
    /** Set by {@link #connect}. */
    @SuppressWarnings("NullAway.Init")
    private UcpRequest connecting;
    private boolean failed;
    private boolean tuned;
    private long id;
    private long sequence;
    private long retryNs = MIN_RETRY_NS;
    private long attemptNs = System.nanoTime();
    private long deadlineNs;

    private enum State { APART, CONNECTING, CONNECTED, LEAVING, OVER }

    UcxLink(UcxWire wire, InetSocketAddress peer) {
        this.wire = wire;
        this.peer = peer;
    }

    @Override
    public int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
            int bodyOffset, int bodyLength) {
        int length = headerLength + bodyLength;
        int at = claim(length, Envelope.LENGTH + length);
        if (at < 0) {
            return at;
        }
        ring.buffer().putBytes(at + Envelope.LENGTH, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            ring.buffer().putBytes(at + Envelope.LENGTH + headerLength, body, bodyOffset, bodyLength);
        }
        return send(UcxWire.MESSAGE, at, 0, Envelope.LENGTH + length, ring.address() + at, null);
    }

    @Override
    public int offerInPlace(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength, Runnable release) {
        int at = claim(headerLength + bodyLength, Envelope.LENGTH + headerLength);
        if (at < 0) {
            return at;
        }
        if (!tuned && bodyLength >= BULK) {
            // UCX has opened its connections by now.
            tuned = true;
            wire.tuneSockets(this);
        }
        ring.buffer().putBytes(at + Envelope.LENGTH, header, headerOffset, headerLength);
        return send(UcxWire.MESSAGE, at, Envelope.LENGTH + headerLength, bodyLength, body.addressOffset() + bodyOffset,
                release);
    }

    /** Returns the position of free bytes of the ring that begin with an envelope, or a code of {@link Wire}. */
    private int claim(int messageLength, int length) {
        if (!isConnected()) {
            return state == State.APART || state == State.CONNECTING ? Wire.NOT_CONNECTED : gone();
        }
        UcxWire.checkLength(messageLength);
        int at = ring.claim(length);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Envelope.write(ring.buffer(), at, id, sequence);
        return at;
    }

    /** The peer left when everything that it had sent was here; some of it may have yet to be delivered. */
    private int gone() {
        return wire.keepsMessages() ? Wire.BACK_PRESSURED : Wire.CLOSED;
    }

    /**
     * Sends {@code headLength} bytes of the ring and a body, which lies in the ring if there are none. The body is
     * released when UCX has read it.
     */
    private int send(int kind, int at, int headLength, int length, long body, @Nullable Runnable release) {
        try {
            // The peer stores the endpoint for answers that comes with the first message.
            boolean answered = kind == UcxWire.GOODBYE || sequence == 0;
            UcpRequest request = UcxWire.send(Objects.requireNonNull(endpoint), kind,
                    headLength == 0 ? 0 : ring.address() + at, headLength, body, length, answered);
            if (!request.isCompleted()) {
                ring.hold(at, headLength == 0 ? length : headLength, request, release);
            } else if (request.getStatus() != UcsConstants.STATUS.UCS_OK) {
                failed = true;
                return gone();
            } else if (release != null) {
                release.run();
            }
            sequence += kind == UcxWire.GOODBYE ? 0 : 1;
            return Wire.SENT;
        } catch (UcxException e) {
            failed = true;
            return gone();
        }
    }

    boolean isConnected() {
        return state == State.CONNECTED && !failed;
    }

    /** Does pending work; returns the amount. */
    int work() {
        ring.reclaim();
        int work = puts == null ? 0 : puts.work();
        switch (state) {
            case APART -> {
                if (System.nanoTime() - attemptNs >= 0) {
                    connect();
                    work++;
                }
            }
            case CONNECTING -> {
                if (failed || connecting.isCompleted()) {
                    connected();
                    work++;
                }
            }
            case CONNECTED -> {
                if (failed) {
                    end();
                    work++;
                }
            }
            case LEAVING -> {
                if (failed || System.nanoTime() - deadlineNs >= 0) {
                    end();
                    work++;
                } else if (isQuiet() && System.nanoTime() - attemptNs >= 0) {
                    sendGoodbye();
                }
            }
            case OVER -> { }
        }
        return work;
    }

    private void connect() {
        failed = false;
        sequence = 0;
        id = ThreadLocalRandom.current().nextLong();
        state = State.CONNECTING;
        try {
            UcpEndpoint opened = wire.connect(peer, this::fail);
            endpoint = opened;
            // Completes when the peer has answered.
            connecting = opened.flushNonBlocking(null);
        } catch (UcxException e) {
            failed = true;
        }
    }

    private void connected() {
        if (!failed && connecting.getStatus() == UcsConstants.STATUS.UCS_OK) {
            state = State.CONNECTED;
            puts = new Puts(Objects.requireNonNull(endpoint));
            return;
        }
        drop();
        state = State.APART;
        attemptNs = System.nanoTime() + retryNs;
        retryNs = Math.min(2 * retryNs, MAX_RETRY_NS);
    }

    private void fail() {
        failed = true;
    }

    /**
     * Asks the peer to confirm when everything is delivered. Without that, UCX at the peer would discard data that it
     * has not read yet when the endpoint is closed here.
     */
    private void sendGoodbye() {
        attemptNs = System.nanoTime() + GOODBYE_NS;
        int at = ring.claim(Envelope.LENGTH);
        Envelope.write(ring.buffer(), at, id, sequence);
        send(UcxWire.GOODBYE, at, 0, Envelope.LENGTH, ring.address() + at, null);
    }

    /** Receives a peer's answer to a goodbye: all messages of the link of this id have arrived. */
    void onDelivered(long link) {
        if (link == id && state == State.LEAVING) {
            deadlineNs = System.nanoTime();
        }
    }

    /** Gives up all pending work. */
    void end() {
        drop();
        state = State.OVER;
    }

    private void drop() {
        if (endpoint != null) {
            if (puts != null) {
                puts.breakOff();
            }
            wire.drop(endpoint);
            endpoint = null;
        }
    }

    /** Returns whether the peer runs on this machine, judging by its address. */
    boolean isLocal() {
        return peer.getAddress().isLoopbackAddress() || wire.isAt(peer.getAddress());
    }

    /** Returns whether the link has ended and UCX no longer uses any of its memory. */
    boolean isOver() {
        return state == State.OVER && isQuiet();
    }

    private boolean isQuiet() {
        return ring.isEmpty() && (puts == null || puts.isEmpty());
    }

    /** Frees the send ring; the link is over or the worker is closed. */
    void free() {
        ring.close();
    }

    RemoteWrites.Target attach(byte[] key) {
        if (!isConnected()) {
            throw new TransportException(TransportException.Problem.LOST, "the link to " + peer + " is not connected",
                    "attach a key after the peer has sent it and this link has sent a message");
        }
        return Objects.requireNonNull(puts).attach(UcxKey.of(key));
    }

    @Override
    public void close() {
        if (isConnected()) {
            state = State.LEAVING;
            attemptNs = System.nanoTime();
            deadlineNs = attemptNs + UcxWire.CLOSE_NS;
        } else if (state != State.LEAVING) {
            end();
        }
        wire.forget(this);
    }
}
