package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

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

    private static final int HEARTBEATS_PER_TIMEOUT = 8;
    /** A longer piece, its protected form and their copies do not stay in a processor's cache. */
    private static final int MAX_PROTECTED_PIECE = 128 << 10;

    final PutQueue puts;
    final Handshake handshake;

    private final TransportContext context;
    private final EndpointListener listener;
    private final Link link;
    private final String address;
    private final Session session;
    private final UnsafeBuffer goodbye = new UnsafeBuffer(0, 0);
    private State state = State.CONNECTING;
    private String reason = "";
    private boolean receivedGoodbye;
    private @Nullable Object attachment;

    private Endpoint(TransportContext context, EndpointListener listener, Link link, String address, Session session,
            Handshake handshake) {
        this.context = context;
        this.listener = listener;
        this.link = link;
        this.address = address;
        this.session = session;
        this.handshake = handshake;
        puts = new PutQueue(this, context);
    }

    /** Begins to connect to the process at an address. */
    static Endpoint connect(TransportContext context, EndpointListener listener, Link link, String address,
            byte[] greeting, long now) {
        Session session = new Session(context, link, address, now);
        return new Endpoint(context, listener, link, address, session,
                Handshake.initiate(context, session, address, greeting, now));
    }

    /** Answers the HELLO of a process. */
    static Endpoint answer(TransportContext context, EndpointListener listener, Link link, Authentication.Hello hello,
            long now) {
        Session session = new Session(context, link, hello.address(), now);
        return new Endpoint(context, listener, link, hello.address(), session,
                Handshake.answer(context, session, hello, now));
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

    /** Returns the number by which the peer addresses this endpoint. */
    long session() {
        return session.number();
    }

    /** Returns why the endpoint is refused or lost, or what may prevent it from connecting, or an empty text. */
    public String reason() {
        if (state != State.CONNECTING || handshake.state() != Handshake.State.GREETING) {
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
        return handshake.greeting();
    }

    /** Returns when the last frame arrived, by the transport's clock; the time of creation if none has arrived. */
    public long lastReceivedNs() {
        return session.lastReceivedNs();
    }

    /** Returns the object that {@link #attach(Object)} stored, or {@code null}. */
    public @Nullable Object attachment() {
        return attachment;
    }

    /** Stores an object of the application with this endpoint. */
    public void attach(@Nullable Object newAttachment) {
        attachment = newAttachment;
    }

    /** Returns the length in bytes of the longest message. */
    public int maxMessageLength() {
        return context.maxMessageLength();
    }

    /**
     * Sends a message.
     *
     * @return {@link #OK}, {@link #BACK_PRESSURED}, {@link #NOT_CONNECTED} or {@link #CLOSED}
     * @throws TransportException if the message is too long, or its length negative
     * @throws IndexOutOfBoundsException if the buffer does not contain it
     */
    public int send(DirectBuffer message, int offset, int length) {
        if (length < 0 || length > context.maxMessageLength()) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a message must have 0 to "
                    + context.maxMessageLength() + " bytes, got " + length, "use a put, or send several messages");
        }
        message.boundsCheck(offset, length);
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
        SharedMemory mapped = map && context.mapsMemory() ? SharedMemory.open(regionKey) : null;
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
            @Nullable Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, false, 0, completion);
    }

    /**
     * Begins to write into a peer's memory, and notifies the peer's {@link PutHandler} when the data have arrived.
     *
     * @param immediate value for the peer's handler
     * @return as {@link #put}
     */
    public int putAndNotify(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            long immediate, @Nullable Completion completion) {
        return begin(source, sourceOffset, target, targetOffset, bytes, true, immediate, completion);
    }

    private int begin(MemoryRegion source, long sourceOffset, RemoteRegion target, long targetOffset, long bytes,
            boolean notify, long immediate, @Nullable Completion completion) {
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
        // A completion also says that the data of earlier puts have arrived.
        boolean queued = notify || completion != null && puts.carriesData();
        if (queued && puts.isFull()) {
            return BACK_PRESSURED;
        }
        MemorySegment.copy(source.memory(), sourceOffset, mapped, targetOffset, bytes);
        if (queued) {
            return puts.add(source, sourceOffset, target, targetOffset, 0, notify, immediate, completion);
        }
        if (completion != null) {
            completion.onComplete(true);
        }
        return OK;
    }

    /** Returns the number of puts that were begun. */
    public long putCount() {
        return puts.count();
    }

    /**
     * Returns whether the first {@code count} puts were sent, or have failed, and nothing of a region waits to be sent
     * from where it lies. Then the region may change, although the peer may not have received the data yet.
     */
    public boolean hasSent(long count, MemoryRegion source) {
        return puts.areSent(count) && !source.isHeld();
    }

    /** Lets messages and puts that follow wait until as many calls of {@link #flush}, so that they leave together. */
    public void hold() {
        link.hold();
    }

    /** Sends what has waited, unless {@link #hold} was called more often than this method. */
    public void flush() {
        link.flush();
    }

    /** Opens memory that the peer registered with the wire, or returns {@code null} if the wire cannot write there. */
    RemoteWrites.@Nullable Target target(RegionKey regionKey) {
        RemoteWrites remote = context.wire().remoteWrites();
        return regionKey.remote().length > 0 && remote != null ? remote.attach(link, regionKey.remote()) : null;
    }

    /** Sends a frame under the session's key; bytes of {@link #head} behind the common header must be in place. */
    int frame(byte type, int headLength, @Nullable DirectBuffer body, int offset, int length) {
        return frame(type, headLength, body, offset, length, null);
    }

    /** Sends a frame. If {@code source}, in which its body lies, is not null, the wire may read it there for longer. */
    int frame(byte type, int headLength, @Nullable DirectBuffer body, int offset, int length,
            @Nullable MemoryRegion source) {
        int code = session.send(type, headLength, body, offset, length, source);
        if (code == Wire.CLOSED) {
            lose(session.failure());
        }
        return code;
    }

    /** Returns whether data of puts are sent from where they lie. */
    boolean sendsInPlace() {
        return context.wire().sendsInPlace() && !session.isProtected();
    }

    /** Returns how many bytes of a put one frame carries. */
    int pieceLength() {
        return session.isProtected() ? Math.min(MAX_PROTECTED_PIECE, context.pieceLength()) : context.pieceLength();
    }

    UnsafeBuffer head() {
        return session.head();
    }

    /** Continues the handshake, sends heartbeats and continues puts; returns the amount of work done. */
    int doWork(long now) {
        if (state != State.CONNECTING && state != State.CONNECTED) {
            return 0;
        }
        int work = handshake.doWork(now);
        followHandshake();
        return state == State.CONNECTED ? work + keepAlive(now) : work;
    }

    /** Brings this endpoint into the state that the handshake has led to. */
    private void followHandshake() {
        if (state != State.CONNECTING && state != State.CONNECTED) {
            return;
        }
        switch (handshake.state()) {
            case GREETING, PROVING, CHALLENGING, REFUSING -> { }
            case WELCOMING, COMPLETE -> connected();
            case REFUSED -> end(State.REFUSED, handshake.reason());
            case FAILED -> lose(handshake.reason());
            case CLOSED -> close();
        }
    }

    private void connected() {
        if (state == State.CONNECTING) {
            state = State.CONNECTED;
            if (handshake.hello() != null) {
                link.onProof();
                context.handlers().connections.onAccepted(this);
            }
        }
    }

    private int keepAlive(long now) {
        int work = puts.doWork();
        long timeoutNs = context.livenessTimeoutNs();
        if (session.silentNs() > timeoutNs) {
            String elapsed = TimeUnit.NANOSECONDS.toMillis(now - session.lastReceivedNs()) + " ms";
            sendGoodbye("received nothing for " + elapsed);
            lose("received nothing from " + address + " for " + elapsed + session.suspicion());
        } else if (now - session.lastSentNs() > timeoutNs / HEARTBEATS_PER_TIMEOUT || link.isBroken()) {
            // If there is no room for it, the next call tries again. If the link is broken, the attempt shows it.
            frame(Frame.HEARTBEAT, Frame.HEADER, null, 0, 0);
        }
        return work;
    }

    /** Processes a frame of this session; returns whether it was accepted. */
    boolean receive(DirectBuffer head, int at, DirectBuffer body, int bodyOffset, int bodyLength) {
        if (Handshake.includes(Frame.type(head, at))) {
            boolean accepted = handshake.receive(Frame.type(head, at), head, at, Frame.HEADER + bodyLength);
            followHandshake();
            return accepted;
        }
        if (session.isProtected()) {
            return head == body ? receiveProtected(head, at) : context.refusals().forged(address);
        }
        if (!session.isSealed(head, at, body, bodyOffset, bodyLength)) {
            return context.refusals().checksum(address);
        }
        return accept(head, at, body, bodyOffset, bodyLength);
    }

    /**
     * Processes a frame that arrived whole: only wires whose frames are not protected deliver parts. A frame that is
     * not authentic ends nothing by itself, because any process can send one: if it replaced a frame of the peer, the
     * next one shows that, or the liveness timeout does.
     */
    private boolean receiveProtected(DirectBuffer frame, int at) {
        long sequence = Frame.sequence(frame, at);
        if (sequence < session.expected()) {
            return context.refusals().replay(address, sequence, session.expected());
        }
        DirectBuffer opened = session.open(frame, at);
        if (opened == null) {
            return context.refusals().forged(address);
        }
        int headLength = Frame.headLength(Frame.type(opened, 0));
        return accept(opened, 0, opened, headLength, opened.capacity() - headLength);
    }

    /** Returns where the data of a put, whose head has arrived, may be received, or {@code null}. */
    Inbox.@Nullable Place place(DirectBuffer head, int at, int bodyLength) {
        boolean genuine = state == State.CONNECTED && !session.isProtected() && Frame.isBare(head, at)
                && Frame.sequence(head, at) == session.expected()
                && session.isSealed(head, at, head, at, bodyLength);
        return genuine ? puts.place(head, at, bodyLength) : null;
    }

    /** Processes a frame of the peer. */
    private boolean accept(DirectBuffer head, int at, DirectBuffer body, int bodyOffset, int bodyLength) {
        if (state != State.CONNECTING && state != State.CONNECTED) {
            // The peer does not know yet that this side has given it up.
            return context.refusals().late();
        }
        long sequence = Frame.sequence(head, at);
        long expected = session.expected();
        if (sequence != expected) {
            context.refusals().replay(address, sequence, expected);
            if (sequence > expected) {
                expel("sent frame " + sequence + " when " + expected + " was expected: frames were lost"
                        + session.suspicion());
            }
            return false;
        }
        session.received();
        if (state == State.CONNECTING) {
            // A WELCOME, or a frame that overtook it.
            handshake.onSealedFrame();
            followHandshake();
        }
        onFrame(head, at, body, bodyOffset, bodyLength);
        return true;
    }

    private void onFrame(DirectBuffer head, int at, DirectBuffer body, int bodyOffset, int bodyLength) {
        switch (Frame.type(head, at)) {
            case Frame.MESSAGE -> context.handlers().messages.onMessage(this, body, bodyOffset, bodyLength);
            case Frame.PUT -> puts.receive(head, at, body, bodyOffset, bodyLength);
            case Frame.PUT_DONE -> {
                if (bodyLength == Long.BYTES) {
                    puts.acknowledged(body.getLong(bodyOffset, Frame.ORDER));
                } else {
                    expel("sent an acknowledgement of " + bodyLength + " bytes");
                }
            }
            case Frame.GOODBYE -> {
                receivedGoodbye = bodyLength == 0;
                lose(receivedGoodbye ? address + " closed the connection" : address + " ended the connection: "
                        + body.getStringWithoutLengthAscii(bodyOffset, bodyLength));
            }
            default -> { }
        }
    }

    /** Ends the connection because the peer violated the protocol, and sends it the reason. */
    void expel(String what) {
        sendGoodbye(what);
        lose(address + ' ' + what);
    }

    private void sendGoodbye(String why) {
        goodbye.wrap(why.getBytes(StandardCharsets.US_ASCII));
        frame(Frame.GOODBYE, Frame.HEADER, goodbye, 0, goodbye.capacity());
    }

    void lose(String why) {
        boolean wasConnected = state == State.CONNECTED;
        if (wasConnected || state == State.CONNECTING) {
            try {
                end(State.LOST, why);
            } finally { // A completion may throw an exception.
                if (wasConnected) {
                    context.counters().lostPeers++;
                    context.handlers().connections.onLost(this);
                }
            }
        }
    }

    private void end(State last, String why) {
        state = last;
        reason = why;
        handshake.close();
        listener.onEnded(this);
        puts.fail();
    }

    /**
     * As {@link #close()}, unless there is no room for a goodbye; then nothing happens.
     *
     * @return whether the connection was closed
     */
    public boolean closeIfRoom() {
        if (state == State.CONNECTED) {
            puts.doWork();
            if (frame(Frame.GOODBYE, Frame.HEADER, null, 0, 0) == BACK_PRESSURED) {
                return false;
            }
        }
        try {
            if (state == State.CONNECTED) {
                end(State.CLOSED, "closed here");
            }
        } finally { // A completion may throw an exception.
            close();
        }
        return true;
    }

    /** Sends a goodbye to the peer and ends the connection; pending puts fail. */
    @Override
    public void close() {
        close(() -> false);
    }

    /** As {@link #close()}; the goodbye may wait for room as long as {@code waitsForRoom} returns true. */
    void close(BooleanSupplier waitsForRoom) {
        try {
            if (state == State.CONNECTED) {
                // Acknowledge what the peer has written here.
                puts.send();
            }
            while (state == State.CONNECTED && frame(Frame.GOODBYE, Frame.HEADER, null, 0, 0) == BACK_PRESSURED
                    && waitsForRoom.getAsBoolean()) { }
            if (state != State.CLOSED) {
                end(State.CLOSED, "closed here");
            }
        } finally { // A completion may throw an exception.
            listener.onClosed(this);
            link.close();
        }
    }

    @Override
    public String toString() {
        return address + " (" + state + ")";
    }
}
