package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.net.InetSocketAddress;
import java.util.concurrent.ThreadLocalRandom;
import org.agrona.DirectBuffer;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucs.UcsConstants;

/**
 * A UCX endpoint to a peer's listener. Until the peer is there, it tries again and again; once the peer was there and
 * is gone, the link is of no use any more.
 */
final class UcxLink implements Link {
    private static final int RING_CAPACITY = 4 << 20;
    private static final long MIN_RETRY_NS = 5_000_000;
    private static final long MAX_RETRY_NS = 200_000_000;
    private static final long GOODBYE_NS = 20_000_000;

    private final UcxWire wire;
    private final InetSocketAddress peer;
    private final SendRing ring = new SendRing(RING_CAPACITY);
    private State state = State.APART;
    private UcpEndpoint endpoint;
    private Puts puts;
    private UcpRequest connecting;
    private boolean failed;
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
    public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        if (state != State.CONNECTED || failed) {
            return state == State.APART || state == State.CONNECTING ? Wire.NOT_CONNECTED : Wire.CLOSED;
        }
        int length = headerLength + bodyLength;
        UcxWire.checkLength(length);
        int at = ring.claim(Envelope.LENGTH + length);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Envelope.write(ring.buffer(), at, id, sequence);
        ring.buffer().putBytes(at + Envelope.LENGTH, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            ring.buffer().putBytes(at + Envelope.LENGTH + headerLength, body, bodyOffset, bodyLength);
        }
        int code = send(UcxWire.MESSAGE, at, Envelope.LENGTH + length);
        if (code == Wire.SENT) {
            sequence++;
        }
        return code;
    }

    private int send(int kind, int at, int length) {
        try {
            UcpRequest request = wire.send(endpoint, kind, ring.address() + at, length);
            if (!request.isCompleted()) {
                ring.hold(at, length, request);
            } else if (request.getStatus() != UcsConstants.STATUS.UCS_OK) {
                failed = true;
                return Wire.CLOSED;
            }
            return Wire.SENT;
        } catch (UcxException e) {
            failed = true;
            return Wire.CLOSED;
        }
    }

    /** Does what is due; returns how much that was. */
    int work() {
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
                    sayGoodbye();
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
            endpoint = wire.connect(peer, this::fail);
            // Completes when the peer has answered.
            connecting = endpoint.flushNonBlocking(null);
        } catch (UcxException e) {
            failed = true;
        }
    }

    private void connected() {
        if (!failed && connecting.getStatus() == UcsConstants.STATUS.UCS_OK) {
            state = State.CONNECTED;
            puts = new Puts(endpoint);
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
     * Asks the peer to say when all has been handed over. Without that, UCX at the peer throws away what it has not
     * read yet when the endpoint is closed here.
     */
    private void sayGoodbye() {
        attemptNs = System.nanoTime() + GOODBYE_NS;
        int at = ring.claim(Envelope.LENGTH);
        Envelope.write(ring.buffer(), at, id, sequence);
        send(UcxWire.GOODBYE, at, Envelope.LENGTH);
    }

    /** The peer has all that was sent by the link of this id. */
    void delivered(long link) {
        if (state == State.LEAVING && link == id) {
            deadlineNs = System.nanoTime();
        }
    }

    /** Gives up whatever is still to be done. */
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

    /** Returns whether the peer runs on this machine, as far as its address tells. */
    boolean isLocal() {
        return peer.getAddress().isLoopbackAddress() || wire.isAt(peer.getAddress());
    }

    /** Returns whether it has ended and UCX needs none of its memory any more. */
    boolean isOver() {
        return state == State.OVER && isQuiet();
    }

    private boolean isQuiet() {
        return ring.isEmpty() && (puts == null || puts.isEmpty());
    }

    /** Frees what was sent from; the link is over or the worker is gone. */
    void free() {
        ring.close();
    }

    RemoteWrites.Target attach(byte[] key) {
        if (state != State.CONNECTED || failed) {
            throw new TransportException(TransportException.Problem.LOST, "the link to " + peer + " is not connected",
                    "attach a key when the peer has sent it and the link has sent, too");
        }
        return UcxRegistration.attach(key, endpoint, puts);
    }

    @Override
    public void close() {
        if (state == State.CONNECTED && !failed) {
            state = State.LEAVING;
            attemptNs = System.nanoTime();
            deadlineNs = attemptNs + UcxWire.CLOSE_NS;
        } else if (state != State.LEAVING) {
            end();
        }
        wire.forget(this);
    }
}
