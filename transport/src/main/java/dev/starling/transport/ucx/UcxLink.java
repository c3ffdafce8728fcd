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
    private final Writes writes = new Writes(this);
    private State state = State.APART;
    private UcpEndpoint endpoint;
    private Puts puts;
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
    public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        if (!isConnected()) {
            return state == State.APART || state == State.CONNECTING ? Wire.NOT_CONNECTED : gone();
        }
        int length = headerLength + bodyLength;
        UcxWire.checkLength(length);
        // Do not overtake puts that wait for room.
        int at = writes.send() ? ring.claim(Envelope.LENGTH + length) : -1;
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Envelope.write(ring.buffer(), at, id, sequence);
        ring.buffer().putBytes(at + Envelope.LENGTH, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            ring.buffer().putBytes(at + Envelope.LENGTH + headerLength, body, bodyOffset, bodyLength);
        }
        return send(UcxWire.MESSAGE, at, Envelope.LENGTH + length, 0, 0) == Wire.SENT ? Wire.SENT : gone();
    }

    /** The peer left when everything that it had sent was here; some of it may have yet to be delivered. */
    private int gone() {
        return wire.keepsMessages() ? Wire.BACK_PRESSURED : Wire.CLOSED;
    }

    /** Sends a piece of a put, which is not copied, followed by a message if that has a length. */
    int write(long registration, long token, long offset, boolean last, long address, int length, DirectBuffer message,
            int messageLength) {
        if (!tuned && length >= BULK) {
            // UCX has opened its connections by now.
            tuned = true;
            wire.tuneSockets(this);
        }
        int at = failed ? -1 : ring.claim(Envelope.WRITE_LENGTH + messageLength);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Envelope.write(ring.buffer(), at, id, sequence);
        Envelope.writeTarget(ring.buffer(), at, registration, token, offset, last);
        ring.buffer().putBytes(at + Envelope.WRITE_LENGTH, message, 0, messageLength);
        return send(UcxWire.WRITE, at, Envelope.WRITE_LENGTH + messageLength, address, length);
    }

    /** Sends bytes of the ring; for a write they precede the data. */
    private int send(int kind, int at, int length, long data, int dataLength) {
        try {
            long from = ring.address() + at;
            // The peer stores the endpoint for answers that comes with the first message.
            boolean answered = kind == UcxWire.GOODBYE || sequence == 0;
            UcpRequest request = kind == UcxWire.WRITE
                    ? UcxWire.send(endpoint, kind, from, length, data, dataLength, answered)
                    : UcxWire.send(endpoint, kind, 0, 0, from, length, answered);
            if (!request.isCompleted()) {
                ring.hold(at, length, request);
            } else if (request.getStatus() != UcsConstants.STATUS.UCS_OK) {
                failed = true;
                return Wire.CLOSED;
            }
            sequence += kind == UcxWire.GOODBYE ? 0 : 1;
            return Wire.SENT;
        } catch (UcxException e) {
            failed = true;
            return Wire.CLOSED;
        }
    }

    boolean isConnected() {
        return state == State.CONNECTED && !failed;
    }

    /** Returns whether waiting data can still be sent. */
    boolean isAlive() {
        return isConnected() || state == State.LEAVING && !failed;
    }

    int pieceLength() {
        return wire.bulkMessageLength();
    }

    /** Does pending work; returns the amount. */
    int work() {
        int work = writes.work() + (puts == null ? 0 : puts.work());
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
            case OVER -> work += ring.isEmpty() ? writes.fail() : 0;
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
     * Asks the peer to confirm when everything is delivered. Without that, UCX at the peer would discard data that it
     * has not read yet when the endpoint is closed here.
     */
    private void sendGoodbye() {
        attemptNs = System.nanoTime() + GOODBYE_NS;
        int at = ring.claim(Envelope.LENGTH);
        Envelope.write(ring.buffer(), at, id, sequence);
        send(UcxWire.GOODBYE, at, Envelope.LENGTH, 0, 0);
    }

    /**
     * Receives a peer's progress: how many puts of the link of this id have arrived, and whether all of its messages
     * have.
     */
    void onProgress(long link, long written, boolean all) {
        if (link == id) {
            writes.arrived(written);
            if (all && state == State.LEAVING) {
                deadlineNs = System.nanoTime();
            }
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
        return ring.isEmpty() && writes.isEmpty() && (puts == null || puts.isEmpty());
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
        UcxKey read = UcxKey.of(key);
        return read.kind() == UcxKey.NETWORK ? puts.attach(read) : writes.attach(read);
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
