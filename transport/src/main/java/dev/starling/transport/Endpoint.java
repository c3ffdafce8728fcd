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
 * One end of a connection between two processes that have proven to each other that they belong together. Carries
 * messages, in order and each once, and puts, in order among themselves; a message may overtake a put. Confined to its
 * {@link Transport}'s thread.
 */
public final class Endpoint implements AutoCloseable {
    /** It is on its way. */
    public static final int OK = Wire.SENT;

    /** No room at the moment: let {@link Transport#doWork} run and try again. */
    public static final int BACK_PRESSURED = Wire.BACK_PRESSURED;

    /** The peer has not been reached yet. */
    public static final int NOT_CONNECTED = Wire.NOT_CONNECTED;

    /** The peer is lost or refused, or this endpoint is closed: see {@link #reason}. */
    public static final int CLOSED = Wire.CLOSED;

    private static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long TIME_TO_REFUSE_NS = TimeUnit.SECONDS.toNanos(1);
    private static final int HEARTBEATS_IN_SILENCE = 8;

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
    private long lastHeardNs;
    private long lastSentNs;
    private long nextTryNs;
    private long challengedNs;
    private boolean welcomed;
    private boolean saidGoodbye;
    private Object attachment;

    Endpoint(Transport transport, Link link, String address, boolean initiator, long now) {
        this.transport = transport;
        this.link = link;
        this.address = address;
        this.initiator = initiator;
        handshake = new Handshake(transport.config().secret());
        ownSession = Handshake.randomLong();
        createdNs = now;
        lastHeardNs = now;
        nextTryNs = now;
    }

    /** What can be said of an endpoint. */
    public enum State {
        /** The peer has not answered, or proofs are being exchanged. */
        CONNECTING,
        /** Both sides have proven who they are. */
        CONNECTED,
        /** The peer knows another secret. */
        REFUSED,
        /** The peer fell silent, closed, or broke the rules. */
        LOST,
        /** Closed on this side. */
        CLOSED
    }

    /** Returns the state. */
    public State state() {
        return state;
    }

    /** Returns whether both sides have proven who they are, and the peer is not known to be gone. */
    public boolean isConnected() {
        return state == State.CONNECTED;
    }

    /** Returns whether somebody began to connect to this side, and has not proven yet who it is. */
    boolean isUnproven() {
        return !initiator && state == State.CONNECTING && !isStranger();
    }

    /** Returns whether somebody began to connect to this side who does not know the secret, and is to be told. */
    boolean isStranger() {
        return hello != null && !hello.proven();
    }

    /** Returns since when it has been there. */
    long createdNs() {
        return createdNs;
    }

    /** Returns why the endpoint is refused or lost, or what may keep it from being connected, or an empty text. */
    public String reason() {
        if (state != State.CONNECTING || peerSession != 0) {
            return reason;
        }
        String obstacle = link.obstacle();
        return obstacle.isEmpty() ? address + " has not answered; its own log may say why" : obstacle;
    }

    /** Returns whether the peer closed the connection; then all that it sent before has been delivered. */
    public boolean saidGoodbye() {
        return saidGoodbye;
    }

    /** Returns the peer's address. */
    public String address() {
        return address;
    }

    /** Returns the bytes that the connecting side gave to {@link Transport#connect}. */
    public byte[] greeting() {
        return greeting;
    }

    /** Returns when the last frame came from the peer, by the transport's clock; the time of creation if none came. */
    public long lastHeardNs() {
        return lastHeardNs;
    }

    /** Returns what {@link #attach(Object)} left here. */
    public Object attachment() {
        return attachment;
    }

    /** Leaves something of the user's here. */
    public void attach(Object something) {
        attachment = something;
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
                    + " bytes is longer than " + transport.maxMessageLength(), "put it, or send it in parts");
        }
        return switch (state) {
            case CONNECTED -> frame(Frame.MESSAGE, Frame.HEADER, message, offset, length);
            case CONNECTING -> NOT_CONNECTED;
            case REFUSED, LOST, CLOSED -> CLOSED;
        };
    }

    /** Makes a peer's region writable from here, with the key that the peer sent; maps it if it can be mapped. */
    public RemoteRegion open(RegionKey regionKey) {
        return open(regionKey, true);
    }

    /**
     * Makes a peer's region writable from here, with the key that the peer sent.
     *
     * @param map whether the memory is mapped, if it can be
     */
    public RemoteRegion open(RegionKey regionKey, boolean map) {
        SharedMemory mapped = map && transport.config().sharedMemory() && transport.wire().mapsMemory()
                ? SharedMemory.open(regionKey) : null;
        return new RemoteRegion(this, regionKey, mapped);
    }

    /**
     * Begins to write into a peer's memory. The source must stay as it is until the completion. What is written into a
     * region that its owner has closed meanwhile is dropped, which counts as arrived; the owner is not told of it.
     *
     * @param completion told when the data have arrived, and with them those of all puts before, or that the peer is
     *     lost. May be called before this returns. May be {@code null}, which spares the peer's answer
     * @return {@link #OK}, {@link #BACK_PRESSURED} if too many puts are under way, {@link #NOT_CONNECTED} or
     *     {@link #CLOSED}; the completion is told only after {@link #OK}
     * @throws TransportException if source or target range lies outside of its region, or either is closed
     */
    public int put(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, false, 0, completion);
    }

    /**
     * Begins to write into a peer's memory, and has the peer's {@link PutHandler} told once the data are there.
     *
     * @param immediate what the peer is told
     * @return as {@link #put}
     */
    public int putAndTell(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            long immediate, Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, true, immediate, completion);
    }

    private int begin(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            boolean tell, long immediate, Completion completion) {
        range("source", sourceOffset, bytes, source.bytes());
        range("target", targetOffset, bytes, target.bytes());
        if (target.endpoint() != this || source.isClosed() || target.isClosed()) {
            throw new TransportException(TransportException.Problem.ARGUMENT, target.endpoint() == this
                    ? "source or target is closed" : "the region belongs to another peer", "open it on this endpoint");
        }
        if (state != State.CONNECTED) {
            return state == State.CONNECTING ? NOT_CONNECTED : CLOSED;
        }
        MemorySegment mapped = target.memory();
        if (mapped == null) {
            return puts.add(source, sourceOffset, target, targetOffset, bytes, tell, immediate, completion);
        }
        if (tell && puts.isFull()) {
            return BACK_PRESSURED;
        }
        MemorySegment.copy(source.memory(), sourceOffset, mapped, targetOffset, bytes);
        if (tell) {
            return puts.add(source, sourceOffset, target, targetOffset, 0, true, immediate, completion);
        }
        if (completion != null) {
            completion.completed(true);
        }
        return OK;
    }

    private static void range(String what, long offset, long bytes, long size) {
        if (offset < 0 || bytes < 0 || offset > size - bytes) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "the " + what + " range, " + bytes
                    + " bytes from " + offset + " on, lies outside of a region of " + size, "");
        }
    }

    /** Sends a frame under the session's key; what lies behind the header in {@link #head} must be there. */
    int frame(byte type, int headLength, DirectBuffer body, int offset, int length) {
        Frame.seal(transport.bodies, head, headLength, type, peerSession, sent + 1, key, body, offset, length);
        return sent(offer(headLength, body, offset, length));
    }

    /** Sends what is in {@link #head} as a frame that comes after what is written before it. */
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

    /** What is wrong with one link, such as that it finds no room, ends this connection and no other. */
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

    /** Shakes hands, keeps alive, goes on with puts; returns the amount of work done. */
    int doWork(long now) {
        return state == State.CONNECTING ? connect(now) : state == State.CONNECTED ? keepAlive(now) : 0;
    }

    private int keepAlive(long now) {
        int work = puts.doWork();
        if (!initiator && !welcomed) {
            welcomed = frame(Frame.WELCOME, Frame.HEADER, null, 0, 0) == OK;
        }
        long silence = transport.config().silence().toNanos();
        if (now - lastHeardNs > silence) {
            String silent = TimeUnit.NANOSECONDS.toMillis(now - lastHeardNs) + " ms";
            sayGoodbye("nothing heard for " + silent);
            lose("nothing heard from " + address + " for " + silent);
        } else if (now - lastSentNs > silence / HEARTBEATS_IN_SILENCE) {
            // Where there is no room for it now, it goes as soon as there is.
            frame(Frame.HEARTBEAT, Frame.HEADER, null, 0, 0);
        }
        return work;
    }

    private int connect(long now) {
        if (isStranger() && now - createdNs > TIME_TO_REFUSE_NS) {
            close();
            return 0;
        }
        if (!initiator && now - createdNs > transport.config().silence().toNanos()) {
            transport.stranger(this, "did not prove in time that it knows the cluster's secret");
            return 1;
        }
        if (now < nextTryNs) {
            return 0;
        }
        if (peerSession != 0 && initiator && now - challengedNs > transport.config().silence().toNanos()) {
            // Who sent the challenge is gone, or never took the proof: begin again.
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

    /** Takes a frame of this session; returns whether it was accepted. */
    boolean take(byte type, DirectBuffer buffer, int offset, int length) {
        int body = offset + Frame.HEADER;
        int bodyLength = length - Frame.HEADER;
        if (type == Frame.CHALLENGE) {
            return takeChallenge(buffer, offset, length);
        }
        if (type == Frame.PROOF) {
            return takeProof(buffer, offset, length);
        }
        if (type == Frame.REFUSAL) {
            return takeRefusal(buffer, offset, length);
        }
        if (key == 0 || !Frame.isWhole(transport.bodies, buffer, offset, length, key)) {
            return transport.refuseChecksum(this);
        }
        if (state != State.CONNECTING && state != State.CONNECTED) {
            // The peer does not know yet that it was lost.
            return transport.refuseLate();
        }
        long sequence = Frame.sequence(buffer, offset);
        if (sequence != expected) {
            transport.refuseReplay(this, sequence, expected);
            if (sequence > expected) {
                expel("sent frame " + sequence + " when " + expected + " was due: frames were lost");
            }
            return false;
        }
        // WELCOME, or what overtook it.
        state = State.CONNECTED;
        expected++;
        lastHeardNs = transport.now();
        switch (type) {
            case Frame.MESSAGE -> transport.deliver(this, buffer, body, bodyLength);
            case Frame.PUT -> puts.take(buffer, offset, length);
            case Frame.PUT_DONE -> puts.done(buffer.getLong(body, Frame.ORDER));
            case Frame.GOODBYE -> {
                saidGoodbye = bodyLength == 0;
                lose(saidGoodbye ? address + " closed the connection" : address + " ended the connection: "
                        + buffer.getStringWithoutLengthAscii(body, bodyLength));
            }
            default -> { }
        }
        return true;
    }

    private boolean takeChallenge(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, 0)) {
            return transport.refuseChecksum(this);
        }
        if (!initiator || state != State.CONNECTING || peerSession != 0) {
            return transport.refuseLate();
        }
        long session = handshake.acceptChallenge(buffer, offset + Frame.HEADER, length - Frame.HEADER, ownSession,
                transport.address());
        if (session == 0) {
            end(State.REFUSED, "the process at " + address + " did not prove that it knows this cluster's secret;"
                    + " give both the same secret");
            transport.counters.refusedStrangers++;
            return false;
        }
        if (!handshake.peerAddress().equals(address)) {
            end(State.REFUSED, "the process reached at " + address + " is known to the cluster as "
                    + handshake.peerAddress() + "; connect to it by that name");
            return false;
        }
        peerSession = session;
        challengedNs = transport.now();
        key = handshake.key();
        lastHeardNs = transport.now();
        nextTryNs = lastHeardNs;
        return true;
    }

    /** Only who got the HELLO knows this session, so this can be believed as much as that nobody answers. */
    private boolean takeRefusal(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, 0)) {
            return transport.refuseChecksum(this);
        }
        if (!initiator || state != State.CONNECTING || peerSession != 0) {
            return transport.refuseLate();
        }
        end(State.REFUSED, "the process at " + address + " refused this one: they know different secrets; give both"
                + " the same secret");
        return true;
    }

    private boolean takeProof(DirectBuffer buffer, int offset, int length) {
        if (initiator || state != State.CONNECTING) {
            return transport.refuseLate();
        }
        byte[] said = handshake.acceptProof(buffer, offset + Frame.HEADER, length - Frame.HEADER);
        if (said == null) {
            // Whoever sent this, the one whose HELLO it was may yet prove itself.
            return transport.refuseProof(this);
        }
        long agreed = handshake.key();
        if (!Frame.isWhole(transport.bodies, buffer, offset, length, agreed)) {
            return transport.refuseChecksum(this);
        }
        key = agreed;
        greeting = said;
        state = State.CONNECTED;
        lastHeardNs = transport.now();
        welcomed = frame(Frame.WELCOME, Frame.HEADER, null, 0, 0) == OK;
        transport.accepted(this);
        return true;
    }

    /** Ends the connection because the peer broke the rules, and tells it. */
    void expel(String what) {
        sayGoodbye(what);
        lose(address + ' ' + what);
    }

    private void sayGoodbye(String why) {
        handshakeBody.wrap(why.getBytes(StandardCharsets.US_ASCII));
        frame(Frame.GOODBYE, Frame.HEADER, handshakeBody, 0, handshakeBody.capacity());
    }

    void lose(String why) {
        if (isUnproven()) {
            transport.stranger(this, "did not prove who it is: " + why);
            return;
        }
        if (isStranger()) {
            close();
            return;
        }
        boolean known = state == State.CONNECTED;
        if (state == State.CONNECTED || state == State.CONNECTING) {
            end(State.LOST, why);
            transport.lost(this, known);
        }
    }

    private void end(State last, String why) {
        state = last;
        reason = why;
        transport.forgetHello(this);
        puts.fail();
    }

    /** Tells the peer and ends the connection; puts under way fail. */
    @Override
    public void close() {
        if (state == State.CONNECTED) {
            // What the peer has written here it shall know to have arrived.
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
