package dev.starling.transport.tcp;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A connection to a peer's wire, which only this side sends over. Until the peer has answered, the link tries again,
 * and so it does if the peer closes the connection because too many others are unproven. Otherwise a link whose
 * connection broke is over, because messages may have been lost.
 */
final class TcpLink implements Link {
    private static final System.Logger LOG = System.getLogger(TcpLink.class.getName());
    private static final long MIN_RETRY_NS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long MAX_RETRY_NS = TimeUnit.MILLISECONDS.toNanos(200);
    /** Messages of this length are distributed over all connections. */
    private static final int MIN_SPREAD = 16 << 10;
    private static final long ANSWER_NS = TimeUnit.SECONDS.toNanos(3);
    /** More than a peer's bytes take. A selector reports again what remains. */
    private static final int MAX_READS = 8;
    /** How long a peer may take to receive what was sent before its link was closed. */
    private static final long CLOSE_NS = TimeUnit.MILLISECONDS.toNanos(500);
    /** How long to wait for the last messages of a peer whose connection broke. */
    private static final long LAST_MESSAGES_NS = TimeUnit.SECONDS.toNanos(1);

    private final TcpWire wire;
    private final InetSocketAddress peer;
    private final ByteBuffer answer = ByteBuffer.allocateDirect(Unit.REPLY);
    private final UnsafeBuffer answerView = new UnsafeBuffer(answer);
    private State state = State.APART;
    /** {@code null} while the link is apart, and when it is broken or over. */
    private @Nullable SocketChannel channel;
    /** Set with the channel. */
    @SuppressWarnings("NullAway.Init")
    private SelectionKey key;
    /** Set with the queue. */
    @SuppressWarnings("NullAway.Init")
    private MemorySegment memory;
    /** {@code null} unless the peer has answered. */
    private @Nullable SendQueue queue;
    /** Further connections, in addition to the one on which the peer was proven. */
    private final List<Rail> rails = new ArrayList<>();
    /** Number of the next message. */
    private long number;
    private boolean blocked;
    /** The number of calls of {@link #flush} for which messages wait. */
    private int held;
    private boolean turnedAway;
    private long peerWire;
    private long retryNs = MIN_RETRY_NS;
    private long deadlineNs;
    private String problem = "";

    private enum State {
        /** Waits until the next attempt. */
        APART,
        CONNECTING,
        /** The peer's machine has accepted the connection, the peer has not. */
        GREETING,
        CONNECTED,
        /** The connection broke; the peer's last messages may have yet to be delivered. */
        BROKEN,
        /** Closed here; what was sent before is still being written. */
        LEAVING,
        OVER
    }

    TcpLink(TcpWire wire, InetSocketAddress peer) {
        this.wire = wire;
        this.peer = peer;
        deadlineNs = wire.nowNs();
    }

    InetSocketAddress peer() {
        return peer;
    }

    @Override
    public int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
            int bodyOffset, int bodyLength) {
        if (state != State.CONNECTED) {
            return unavailable();
        }
        int length = headerLength + bodyLength;
        checkLength(length);
        Rail rail = railFor(length);
        SendQueue to = rail == null ? queue() : rail.queue();
        int head = headLength();
        int unit = head + length + Unit.padding(length);
        int at = to.reserve(unit);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Unit.putMessageHeader(to.bytes(), at, length);
        putHeader(to, at, head, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            to.bytes().putBytes(at + head + headerLength, body, bodyOffset, bodyLength);
        }
        to.bytes().setMemory(at + head + length, Unit.padding(length), (byte) 0);
        to.append(unit);
        sendUnlessHeld(rail);
        return Wire.SENT;
    }

    @Override
    public boolean hasRoom(int length) {
        if (state != State.CONNECTED) {
            return true;
        }
        Rail rail = railFor(length);
        return (rail == null ? queue() : rail.queue()).reserve(headLength() + length + Unit.padding(length)) >= 0;
    }

    @Override
    public int offerInPlace(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength, Runnable release) {
        if (state != State.CONNECTED) {
            return unavailable();
        }
        int length = headerLength + bodyLength;
        checkLength(length);
        Rail rail = railFor(length);
        SendQueue to = rail == null ? queue() : rail.queue();
        int head = headLength();
        int before = head + headerLength;
        int padding = Unit.padding(length);
        int at = to.hasRoomForPiece() ? to.reserve(before + padding) : -1;
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        Unit.putPartsHeader(to.bytes(), at, headerLength, length);
        putHeader(to, at, head, header, headerOffset, headerLength);
        to.bytes().setMemory(at + before, padding, (byte) 0);
        to.append(before);
        to.append(body.addressOffset() + bodyOffset, bodyLength, release);
        if (padding > 0) {
            to.append(padding);
        }
        sendUnlessHeld(rail);
        return Wire.SENT;
    }

    /** Returns the rail for a message, or {@code null} for the first connection: long ones go where least waits. */
    private @Nullable Rail railFor(int length) {
        Rail idlest = null;
        long least = length < MIN_SPREAD ? 0 : queue().waiting();
        for (int i = 0; i < rails.size(); i++) {
            Rail rail = rails.get(i);
            if (rail.isReady() && rail.queue().waiting() < least) {
                idlest = rail;
                least = rail.queue().waiting();
            }
        }
        return idlest;
    }

    /** Returns the length of what precedes a message: with several connections, it is numbered. */
    private int headLength() {
        return Unit.MESSAGE_HEADER + (rails.isEmpty() ? 0 : Unit.NUMBER);
    }

    @Override
    public boolean isBroken() {
        return state == State.BROKEN;
    }

    private static void checkLength(int length) {
        if (length > TcpWire.MAX_MESSAGE) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a message must have at most "
                    + TcpWire.MAX_MESSAGE + " bytes, got " + length, "");
        }
    }

    private void putHeader(SendQueue to, int at, int head, DirectBuffer header, int headerOffset, int headerLength) {
        if (head > Unit.MESSAGE_HEADER) {
            Unit.putNumber(to.bytes(), at, number);
        }
        number++;
        to.bytes().putBytes(at + head, header, headerOffset, headerLength);
    }

    /** Returns the channel, which there is from the attempt to connect until {@link #disconnect}. */
    private SocketChannel channel() {
        return Objects.requireNonNull(channel);
    }

    /** Returns the queue, which there is while the link is connected or leaving. */
    private SendQueue queue() {
        return Objects.requireNonNull(queue);
    }

    private int unavailable() {
        return switch (state) {
            case APART, CONNECTING, GREETING -> Wire.NOT_CONNECTED;
            case BROKEN -> wire.isConnectedFrom(peerWire) && wire.nowNs() < deadlineNs ? Wire.BACK_PRESSURED
                    : Wire.CLOSED;
            case CONNECTED, LEAVING, OVER -> Wire.CLOSED;
        };
    }

    @Override
    public void hold() {
        held++;
    }

    @Override
    public void flush() {
        held--;
        if (held == 0 && state == State.CONNECTED && !wire.isPolling()) {
            sendAll();
        }
    }

    /** Writes what waits, or leaves that to {@link #flush} or the end of a poll, so that messages leave together. */
    private void sendUnlessHeld(@Nullable Rail rail) {
        if (wire.isPolling() || held > 0) {
            return;
        }
        if (rail == null) {
            send();
        } else {
            rail.send();
        }
    }

    private void send() {
        if (blocked || queue().isEmpty()) {
            return;
        }
        try {
            blocked = !queue().writeTo(channel());
            if (blocked) {
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            }
        } catch (IOException e) {
            listen();
            breakOff(String.valueOf(e.getMessage()));
        }
    }

    /** Continues what a selector reports, and returns the amount of work done. */
    int onReady() {
        try {
            switch (state) {
                case CONNECTING -> {
                    if (channel().finishConnect()) {
                        greet();
                    }
                }
                case GREETING, CONNECTED, LEAVING -> {
                    if (key.isReadable()) {
                        listen();
                    }
                    if (blocked && key.isValid() && key.isWritable()) {
                        blocked = false;
                        key.interestOps(SelectionKey.OP_READ);
                        send();
                    }
                }
                case APART, BROKEN, OVER -> { }
            }
        } catch (IOException e) {
            breakOff(String.valueOf(e.getMessage()));
        }
        return 1;
    }

    private void connect(long now) {
        deadlineNs = now + ANSWER_NS;
        state = State.CONNECTING;
        try {
            SocketChannel opened = SocketChannel.open(TcpWire.family(peer.getAddress()));
            channel = opened;
            wire.configure(opened);
            key = opened.register(wire.selector(), SelectionKey.OP_CONNECT, this);
            if (opened.connect(peer)) {
                greet();
            }
        } catch (IOException | UnsupportedOperationException e) {
            breakOff(String.valueOf(e.getMessage()));
        }
    }

    private void greet() throws IOException {
        state = State.GREETING;
        wire.established(channel());
        key.interestOps(SelectionKey.OP_READ);
        ByteBuffer preamble = wire.preamble();
        int length = preamble.remaining();
        if (channel().write(preamble) < length) {
            breakOff("there is no room for " + length + " bytes");
        }
        answer.clear();
    }

    /** Reads the peer's answer, later a ticket, and that it closes the connection. */
    private void listen() {
        try {
            for (int i = 0; i < MAX_READS && channel != null; i++) {
                int length = channel().read(answer);
                if (length == 0) {
                    return;
                }
                if (length < 0) {
                    breakOff("it closed the connection");
                } else if (state != State.GREETING) {
                    notified();
                } else if (!answer.hasRemaining()) {
                    answered();
                }
            }
        } catch (IOException e) {
            breakOff(String.valueOf(e.getMessage()));
        }
    }

    private void notified() {
        if (answer.get(0) == Unit.BUSY) {
            turnedAway = true;
            breakOff("too many processes are connecting to it");
        } else if (!answer.hasRemaining()) {
            answer.clear();
            if (!Unit.isTicket(answerView, 0) || wire.connections() == 1 || !rails.isEmpty()) {
                breakOff("it sent something else than one ticket");
            } else if (state == State.CONNECTED) {
                for (int i = 1; i < wire.connections(); i++) {
                    rails.add(Rail.open(wire, this, peer, Unit.ticket(answerView, 0)));
                }
            }
        }
    }

    /** Ends the link, because messages on one of its further connections are lost. */
    void onLostRail(String why) {
        breakOff(why);
    }

    private void answered() {
        if (!Unit.isReply(answerView, 0)) {
            breakOff("something else listens there");
            return;
        }
        peerWire = Unit.wire(answerView, 0);
        memory = wire.buffers().acquireLarge();
        queue = new SendQueue(memory);
        state = State.CONNECTED;
        answer.clear();
    }

    private void breakOff(String why) {
        State before = state;
        if (before == State.APART || before == State.BROKEN || before == State.OVER) {
            return;
        }
        boolean turnedAwayBefore = turnedAway;
        disconnect();
        problem = why;
        if (before == State.LEAVING) {
            state = State.OVER;
        } else if (before == State.CONNECTED && !turnedAwayBefore) {
            state = State.BROKEN;
            deadlineNs = wire.nowNs() + LAST_MESSAGES_NS;
        } else {
            state = State.APART;
            deadlineNs = wire.nowNs() + retryNs;
            retryNs = Math.min(2 * retryNs, MAX_RETRY_NS);
        }
    }

    /** Reads what the peer has sent, such as a ticket: a close with unread bytes would discard bytes that wait here. */
    private void discardUnread(SocketChannel from) {
        try {
            int reads = 0;
            do {
                answer.clear();
                reads++;
            } while (reads <= MAX_READS && from.isConnected() && from.read(answer) > 0);
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "cannot read the last bytes: {0}", e.getMessage());
        }
    }

    private void disconnect() {
        if (channel != null) {
            discardUnread(channel);
            TcpWire.close(channel);
            channel = null;
        }
        if (queue != null) {
            queue.clear();
            queue = null;
            wire.buffers().release(memory);
        }
        rails.forEach(Rail::close);
        rails.clear();
        number = 0;
        blocked = false;
        turnedAway = false;
    }

    private void sendAll() {
        send();
        for (int i = 0; i < rails.size(); i++) {
            rails.get(i).send();
        }
    }

    private boolean isEmpty() {
        return queue().isEmpty() && rails.stream().allMatch(Rail::isEmpty);
    }

    /** Does what is due; returns the amount of work done. */
    int work(long now) {
        int work = 0;
        switch (state) {
            case APART -> {
                if (now >= deadlineNs) {
                    connect(now);
                    work++;
                }
            }
            case CONNECTING, GREETING -> {
                if (now >= deadlineNs) {
                    breakOff("no answer for " + TimeUnit.NANOSECONDS.toMillis(ANSWER_NS) + " ms");
                }
            }
            case CONNECTED -> sendAll();
            case LEAVING -> {
                sendAll();
                if (state == State.LEAVING && (isEmpty() || now >= deadlineNs)) {
                    end();
                }
            }
            case BROKEN, OVER -> { }
        }
        return work;
    }

    /** Writes what waits although no selector has reported that there is room. */
    void retry() {
        blocked = false;
        rails.forEach(Rail::retry);
    }

    /** Returns whether the link was closed and nothing of it remains to be done. */
    boolean isOver() {
        return state == State.OVER;
    }

    /** Gives up what has not been sent. */
    void end() {
        disconnect();
        state = State.OVER;
    }

    @Override
    public String obstacle() {
        return state == State.GREETING ? "a process listens at " + peer + " but has not answered"
                : state != State.APART && state != State.CONNECTING ? ""
                : "no connection to " + peer + (problem.isEmpty() ? "" : ": " + problem)
                + "; no process listens there, a firewall is in the way, or that process is busy";
    }

    @Override
    public void close() {
        if (state == State.CONNECTED) {
            sendAll();
        }
        if (state == State.CONNECTED && !isEmpty()) {
            state = State.LEAVING;
            deadlineNs = wire.nowNs() + CLOSE_NS;
        } else if (state != State.LEAVING) {
            end();
        }
        wire.forget(this);
    }
}
