package dev.starling.transport;

import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * One end of a connection between two processes that have proven to each other that they share the secret. Carries
 * messages, in order and each once, and puts, in order among themselves; a message may overtake a put. Confined to the
 * thread of its {@link Transport}.
 */
public final class Endpoint implements AutoCloseable {
    /** The message or put was accepted. */
    public static final int OK = Wire.SENT;

    /** There is no room at the moment: call {@link Transport#doWork} and try again. */
    public static final int BACK_PRESSURED = Wire.BACK_PRESSURED;

    /** The peer has not been reached yet. */
    public static final int NOT_CONNECTED = Wire.NOT_CONNECTED;

    /** The peer is lost or refused, or this endpoint is closed: see {@link #reason}. */
    public static final int CLOSED = Wire.CLOSED;

    private static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long TIME_TO_REFUSE_NS = TimeUnit.SECONDS.toNanos(1);
    private static final int HEARTBEATS_PER_TIMEOUT = 8;

    final Transport transport;
    final Link link;
    final Handshake handshake;
    final long ownSession;
    final boolean initiator;
    final PutQueue puts = new PutQueue(this);
    long peerSession;
    byte[] greeting;
    Handshake.Hello hello;

    private final String address;
    private final UnsafeBuffer head = new UnsafeBuffer(new byte[Frame.PUT_HEADER]);
    private final UnsafeBuffer handshakeBody = new UnsafeBuffer(0, 0);
    private final long createdNs;
    private State state = State.CONNECTING;
    private String reason = "";
    private long key;
    private long sent;
    private long expected = 1;
    private long lastReceivedNs;
    private long lastSentNs;
    private long nextTryNs;
    private long challengedNs;
    private boolean welcomed;
    private boolean receivedGoodbye;
    private Object attachment;

    Endpoint(Transport transport, Link link, String address, boolean initiator, long now) {
        this.transport = transport;
        this.link = link;
        this.address = address;
        this.initiator = initiator;
        handshake = new Handshake(transport.config().secret());
        ownSession = Handshake.randomLong();
        createdNs = now;
        lastReceivedNs = now;
        nextTryNs = now;
    }

    /** The state of an endpoint. */
    public enum State {
        /** The peer has not answered, or the handshake is in progress. */
        CONNECTING,
        /** Both sides have proven that they have the secret. */
        CONNECTED,
        /** The peer has a different secret. */
        REFUSED,
        /** The peer was silent for too long, closed the connection, or violated the protocol. */
        LOST,
        /** Closed on this side. */
        CLOSED
    }

    /** Returns the state. */
    public State state() {
        return state;
    }

    /** Returns whether the handshake is complete and the peer is not known to be lost. */
    public boolean isConnected() {
        return state == State.CONNECTED;
    }

    /** Returns whether the peer began the connection and has yet to prove that it has the secret. */
    boolean isUnproven() {
        return !initiator && state == State.CONNECTING && !isStranger();
    }

    /** Returns whether the peer began the connection with a wrong secret; it is sent a refusal. */
    boolean isStranger() {
        return hello != null && !hello.proven();
    }

    /** Returns the time at which this endpoint was created. */
    long createdNs() {
        return createdNs;
    }

    /** Returns why the endpoint is refused or lost, or what may prevent it from connecting, or an empty text. */
    public String reason() {
        if (state != State.CONNECTING || peerSession != 0) {
            return reason;
        }
        String obstacle = link.obstacle();
        return obstacle.isEmpty() ? address + " has not answered; its own log may give the reason" : obstacle;
    }

    /** Returns whether the peer closed with a goodbye; then everything that it had sent has been delivered. */
    public boolean receivedGoodbye() {
        return receivedGoodbye;
    }

    /** Returns the peer's address. */
    public String address() {
        return address;
    }

    /** Returns the bytes that the connecting side passed to {@link Transport#connect}. */
    public byte[] greeting() {
        return greeting;
    }

    /** Returns when the last frame arrived, by the transport's clock; the time of creation if none has arrived. */
    public long lastReceivedNs() {
        return lastReceivedNs;
    }

    /** Returns the object that {@link #attach(Object)} stored, or {@code null}. */
    public Object attachment() {
        return attachment;
    }

    /** Stores an object of the application with this endpoint. */
    public void attach(Object newAttachment) {
        attachment = newAttachment;
    }

    /** Returns the length in bytes of the longest message. */
    public int maxMessageLength() {
        return transport.maxMessageLength();
    }

    /**
     * Sends a message.
     *
     * @return {@link #OK}, {@link #BACK_PRESSURED}, {@link #NOT_CONNECTED} or {@link #CLOSED}
     * @throws TransportException if the message is too long
     */
    public int send(DirectBuffer message, int offset, int length) {
        if (length > transport.maxMessageLength()) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a message of " + length
                    + " bytes is longer than " + transport.maxMessageLength(), "use a put, or send several messages");
        }
        return switch (state) {
            case CONNECTED -> frame(Frame.MESSAGE, Frame.HEADER, message, offset, length);
            case CONNECTING -> NOT_CONNECTED;
            case REFUSED, LOST, CLOSED -> CLOSED;
        };
    }

    /** Opens a peer's region for writing, with the key that the peer sent; maps it if possible. */
    public RemoteRegion open(RegionKey regionKey) {
        return open(regionKey, true);
    }

    /**
     * Opens a peer's region for writing, with the key that the peer sent.
     *
     * @param map whether to map the memory, if possible
     */
    public RemoteRegion open(RegionKey regionKey, boolean map) {
        SharedMemory mapped = map && transport.config().sharedMemory() && transport.wire().mapsMemory()
                ? SharedMemory.open(regionKey) : null;
        return new RemoteRegion(this, regionKey, mapped);
    }

    /**
     * Begins to write into a peer's memory. The source must not change until the completion is called. Data for a
     * region that its owner has closed meanwhile are dropped, which counts as arrived, and the owner is not notified.
     *
     * @param completion called when the data of this put and of all earlier ones have arrived, or when the peer is
     *     lost; possibly before this method returns. {@code null} saves the peer's acknowledgement
     * @return {@link #OK}, {@link #BACK_PRESSURED} if too many puts are pending, {@link #NOT_CONNECTED} or {@link
     *     #CLOSED}; the completion is called only after {@link #OK}
     * @throws TransportException if the source or target range lies outside of its region, or either is closed
     */
    public int put(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, false, 0, completion);
    }

    /**
     * Begins to write into a peer's memory, and notifies the peer's {@link PutHandler} when the data have arrived.
     *
     * @param immediate value for the peer's handler
     * @return as {@link #put}
     */
    public int putAndNotify(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            long immediate, Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, true, immediate, completion);
    }

    private int begin(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            boolean notify, long immediate, Completion completion) {
        MemoryRegion.requireRange("source", sourceOffset, bytes, source.bytes());
        MemoryRegion.requireRange("target", targetOffset, bytes, target.bytes());
        if (target.endpoint() != this || source.isClosed() || target.isClosed()) {
            throw new TransportException(TransportException.Problem.ARGUMENT, target.endpoint() == this
                    ? "source or target is closed" : "the region belongs to another peer", "open it on this endpoint");
        }
        if (state != State.CONNECTED) {
            return state == State.CONNECTING ? NOT_CONNECTED : CLOSED;
        }
        MemorySegment mapped = target.memory();
        if (mapped == null) {
            return puts.add(source, sourceOffset, target, targetOffset, bytes, notify, immediate, completion);
        }
        if (notify && puts.isFull()) {
            return BACK_PRESSURED;
        }
        MemorySegment.copy(source.memory(), sourceOffset, mapped, targetOffset, bytes);
        if (notify) {
            return puts.add(source, sourceOffset, target, targetOffset, 0, true, immediate, completion);
        }
        if (completion != null) {
            completion.onComplete(true);
        }
        return OK;
    }

    /** Sends a frame under the session's key; bytes of {@link #head} behind the common header must be in place. */
    int frame(byte type, int headLength, DirectBuffer body, int offset, int length) {
        Frame.seal(transport.bodies, head, headLength, type, peerSession, sent + 1, key, body, offset, length);
        return sent(offer(headLength, body, offset, length));
    }

    /** Writes into the peer's memory and sends {@link #head} as a frame that arrives after the data. */
    int frameBehind(RemoteWrites.Target target, long offset, MemorySegment source, RemoteWrites.Completion completion,
            long tag, byte type, int headLength) {
        Frame.seal(transport.bodies, head, headLength, type, peerSession, sent + 1, key, null, 0, 0);
        return sent(target.putAndSend(offset, source, completion, tag, head, 0, headLength));
    }

    private int sent(int code) {
        if (code == Wire.SENT) {
            sent++;
            lastSentNs = transport.now();
            transport.counters.sent++;
        } else if (code == Wire.CLOSED && state == State.CONNECTED) {
            lose("the link to " + address + " closed");
        }
        return code == Wire.NOT_CONNECTED ? BACK_PRESSURED : code;
    }

    /** A failure of one link, such as a lack of room, ends this connection and no other. */
    private int offer(int headLength, DirectBuffer body, int offset, int length) {
        try {
            return link.offer(head, 0, headLength, body, offset, length);
        } catch (TransportException e) {
            lose(e.getMessage());
            return Wire.CLOSED;
        }
    }

    UnsafeBuffer head() {
        return head;
    }

    /** Continues the handshake, sends heartbeats and continues puts; returns the amount of work done. */
    int doWork(long now) {
        return state == State.CONNECTING ? connect(now) : state == State.CONNECTED ? keepAlive(now) : 0;
    }

    private int keepAlive(long now) {
        int work = puts.doWork();
        if (!initiator && !welcomed) {
            welcomed = frame(Frame.WELCOME, Frame.HEADER, null, 0, 0) == OK;
        }
        long timeoutNs = transport.config().livenessTimeout().toNanos();
        if (now - lastReceivedNs > timeoutNs) {
            String elapsed = TimeUnit.NANOSECONDS.toMillis(now - lastReceivedNs) + " ms";
            sendGoodbye("received nothing for " + elapsed);
            lose("received nothing from " + address + " for " + elapsed);
        } else if (now - lastSentNs > timeoutNs / HEARTBEATS_PER_TIMEOUT) {
            // If there is no room for it, the next call tries again.
            frame(Frame.HEARTBEAT, Frame.HEADER, null, 0, 0);
        }
        return work;
    }

    private int connect(long now) {
        if (isStranger() && now - createdNs > TIME_TO_REFUSE_NS) {
            close();
            return 0;
        }
        if (!initiator && now - createdNs > transport.config().livenessTimeout().toNanos()) {
            transport.refuseStranger(this, "did not prove in time that it has the cluster's secret");
            return 1;
        }
        if (now < nextTryNs) {
            return 0;
        }
        if (peerSession != 0 && initiator && now - challengedNs > transport.config().livenessTimeout().toNanos()) {
            // The peer that sent the challenge is gone, or never received the proof: start again.
            peerSession = 0;
            key = 0;
        }
        byte type;
        byte[] body;
        if (isStranger()) {
            type = Frame.REFUSAL;
            body = new byte[0];
        } else if (!initiator) {
            type = Frame.CHALLENGE;
            body = handshake.challenge(hello, ownSession, transport.address());
        } else if (peerSession == 0) {
            type = Frame.HELLO;
            body = handshake.hello(ownSession, transport.address());
        } else {
            type = Frame.PROOF;
            body = handshake.proof(greeting);
        }
        handshakeBody.wrap(body);
        Frame.seal(transport.bodies, head, Frame.HEADER, type, peerSession, 0, type == Frame.PROOF ? key : 0,
                handshakeBody, 0, body.length);
        int code = offer(Frame.HEADER, handshakeBody, 0, body.length);
        nextTryNs = code == Wire.SENT ? now + RETRY_NS : now + RETRY_NS / 100;
        if (code == Wire.CLOSED) {
            lose("the link to " + address + " closed");
        } else if (code == Wire.SENT && type == Frame.REFUSAL) {
            close();
        }
        return code == Wire.SENT ? 1 : 0;
    }

    /** Processes a frame of this session; returns whether it was accepted. */
    boolean receive(byte type, DirectBuffer buffer, int offset, int length) {
        int body = offset + Frame.HEADER;
        int bodyLength = length - Frame.HEADER;
        if (type == Frame.CHALLENGE) {
            return onChallenge(buffer, offset, length);
        }
        if (type == Frame.PROOF) {
            return onProof(buffer, offset, length);
        }
        if (type == Frame.REFUSAL) {
            return onRefusal(buffer, offset, length);
        }
        if (key == 0 || !Frame.isWhole(transport.bodies, buffer, offset, length, key)) {
            return transport.refuseChecksum(this);
        }
        if (state != State.CONNECTING && state != State.CONNECTED) {
            // The peer does not know yet that this side has given it up.
            return transport.refuseLate();
        }
        long sequence = Frame.sequence(buffer, offset);
        if (sequence != expected) {
            transport.refuseReplay(this, sequence, expected);
            if (sequence > expected) {
                expel("sent frame " + sequence + " when " + expected + " was expected: frames were lost");
            }
            return false;
        }
        // A WELCOME, or a frame that overtook it.
        state = State.CONNECTED;
        expected++;
        lastReceivedNs = transport.now();
        switch (type) {
            case Frame.MESSAGE -> transport.deliver(this, buffer, body, bodyLength);
            case Frame.PUT -> puts.receive(buffer, offset, length);
            case Frame.PUT_DONE -> puts.acknowledged(buffer.getLong(body, Frame.ORDER));
            case Frame.GOODBYE -> {
                receivedGoodbye = bodyLength == 0;
                lose(receivedGoodbye ? address + " closed the connection" : address + " ended the connection: "
                        + buffer.getStringWithoutLengthAscii(body, bodyLength));
            }
            default -> { }
        }
        return true;
    }

    private boolean onChallenge(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, 0)) {
            return transport.refuseChecksum(this);
        }
        if (!initiator || state != State.CONNECTING || peerSession != 0) {
            return transport.refuseLate();
        }
        long session = handshake.acceptChallenge(buffer, offset + Frame.HEADER, length - Frame.HEADER, ownSession,
                transport.address());
        if (session == 0) {
            end(State.REFUSED, "the process at " + address + " has a different secret than this one; give both the same"
                    + " secret");
            transport.counters.refusedStrangers++;
            return false;
        }
        if (!handshake.peerAddress().equals(address)) {
            end(State.REFUSED, "the process at " + address + " has the address "
                    + handshake.peerAddress() + " in the cluster; connect to it by that address");
            return false;
        }
        peerSession = session;
        challengedNs = transport.now();
        key = handshake.key();
        lastReceivedNs = transport.now();
        nextTryNs = lastReceivedNs;
        return true;
    }

    /**
     * Only the receiver of the HELLO knows this session, so a refusal is as trustworthy as the absence of an answer.
     */
    private boolean onRefusal(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, 0)) {
            return transport.refuseChecksum(this);
        }
        if (!initiator || state != State.CONNECTING || peerSession != 0) {
            return transport.refuseLate();
        }
        end(State.REFUSED, "the process at " + address + " refused this one: they have different secrets; give both"
                + " the same secret");
        return true;
    }

    private boolean onProof(DirectBuffer buffer, int offset, int length) {
        if (initiator || state != State.CONNECTING) {
            return transport.refuseLate();
        }
        byte[] accepted = handshake.acceptProof(buffer, offset + Frame.HEADER, length - Frame.HEADER);
        if (accepted == null) {
            // Whichever process sent this, the sender of the HELLO may yet prove that it has the secret.
            return transport.refuseProof(this);
        }
        long agreed = handshake.key();
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, agreed)) {
            return transport.refuseChecksum(this);
        }
        key = agreed;
        greeting = accepted;
        state = State.CONNECTED;
        lastReceivedNs = transport.now();
        welcomed = frame(Frame.WELCOME, Frame.HEADER, null, 0, 0) == OK;
        transport.onAccepted(this);
        return true;
    }

    /** Ends the connection because the peer violated the protocol, and sends it the reason. */
    void expel(String what) {
        sendGoodbye(what);
        lose(address + ' ' + what);
    }

    private void sendGoodbye(String why) {
        handshakeBody.wrap(why.getBytes(StandardCharsets.US_ASCII));
        frame(Frame.GOODBYE, Frame.HEADER, handshakeBody, 0, handshakeBody.capacity());
    }

    void lose(String why) {
        if (isUnproven()) {
            transport.refuseStranger(this, "did not prove that it has the secret: " + why);
            return;
        }
        if (isStranger()) {
            close();
            return;
        }
        boolean known = state == State.CONNECTED;
        if (state == State.CONNECTED || state == State.CONNECTING) {
            end(State.LOST, why);
            transport.onLost(this, known);
        }
    }

    private void end(State last, String why) {
        state = last;
        reason = why;
        transport.forgetHello(this);
        puts.fail();
    }

    /** Sends a goodbye to the peer and ends the connection; pending puts fail. */
    @Override
    public void close() {
        if (state == State.CONNECTED) {
            // Acknowledge what the peer has written here.
            puts.doWork();
        }
        while (state == State.CONNECTED && frame(Frame.GOODBYE, Frame.HEADER, null, 0, 0) == BACK_PRESSURED
                && transport.waitsForRoom()) { }
        if (state != State.CLOSED) {
            end(State.CLOSED, "closed here");
        }
        transport.remove(this);
        link.close();
    }

    @Override
    public String toString() {
        return address + " (" + state + ")";
    }
}
