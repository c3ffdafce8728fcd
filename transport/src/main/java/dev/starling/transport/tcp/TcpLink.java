package dev.starling.transport.tcp;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
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
    private static final long MIN_RETRY_NS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long MAX_RETRY_NS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long ANSWER_NS = TimeUnit.SECONDS.toNanos(3);
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
    private boolean blocked;
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
        int unit = Unit.messageUnit(length);
        int at = queue().reserve(unit);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        putHeader(at, length, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            queue().bytes().putBytes(at + Unit.MESSAGE_HEADER + headerLength, body, bodyOffset, bodyLength);
        }
        queue().bytes().setMemory(at + Unit.MESSAGE_HEADER + length, Unit.padding(length), (byte) 0);
        queue().append(unit);
        sendUnlessPolled();
        return Wire.SENT;
    }

    @Override
    public boolean hasRoom(int length) {
        return state != State.CONNECTED || queue().reserve(Unit.messageUnit(length)) >= 0;
    }

    @Override
    public int offerInPlace(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength, Runnable release) {
        if (state != State.CONNECTED) {
            return unavailable();
        }
        int length = headerLength + bodyLength;
        checkLength(length);
        int before = Unit.MESSAGE_HEADER + headerLength;
        int padding = Unit.padding(length);
        int at = queue().hasRoomForPiece() ? queue().reserve(before + padding) : -1;
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        putHeader(at, length, header, headerOffset, headerLength);
        queue().bytes().setMemory(at + before, padding, (byte) 0);
        queue().append(before);
        queue().append(body.addressOffset() + bodyOffset, bodyLength, release);
        if (padding > 0) {
            queue().append(padding);
        }
        sendUnlessPolled();
        return Wire.SENT;
    }

    private static void checkLength(int length) {
        if (length > TcpWire.MAX_MESSAGE) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a message must have at most "
                    + TcpWire.MAX_MESSAGE + " bytes, got " + length, "");
        }
    }

    private void putHeader(int at, int length, DirectBuffer header, int headerOffset, int headerLength) {
        Unit.putMessageHeader(queue().bytes(), at, length);
        queue().bytes().putBytes(at + Unit.MESSAGE_HEADER, header, headerOffset, headerLength);
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

    /** Writes what waits, or leaves that to the end of a poll, so that answers leave together. */
    private void sendUnlessPolled() {
        if (!wire.isPolling()) {
            send();
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
        } catch (IOException e) {
            breakOff(String.valueOf(e.getMessage()));
        }
    }

    private void greet() throws IOException {
        state = State.GREETING;
        key.interestOps(SelectionKey.OP_READ);
        ByteBuffer preamble = wire.preamble();
        int length = preamble.remaining();
        if (channel().write(preamble) < length) {
            breakOff("there is no room for " + length + " bytes");
        }
        answer.clear();
    }

    /** Reads the peer's answer, and later that it closes the connection. */
    private void listen() {
        try {
            while (state != State.APART && state != State.BROKEN && state != State.OVER) {
                if (state != State.GREETING) {
                    answer.clear();
                }
                int length = channel().read(answer);
                if (length == 0) {
                    return;
                }
                if (length < 0) {
                    breakOff(turnedAway ? "too many processes are connecting to it" : "it closed the connection");
                } else if (state != State.GREETING) {
                    turnedAway |= answer.get(0) == Unit.BUSY;
                } else if (!answer.hasRemaining()) {
                    answered();
                }
            }
        } catch (IOException e) {
            breakOff(String.valueOf(e.getMessage()));
        }
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

    private void disconnect() {
        if (channel != null) {
            TcpWire.close(channel);
            channel = null;
        }
        if (queue != null) {
            queue.clear();
            queue = null;
            wire.buffers().release(memory);
        }
        blocked = false;
        turnedAway = false;
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
            case CONNECTED -> send();
            case LEAVING -> {
                send();
                if (state == State.LEAVING && (queue().isEmpty() || now >= deadlineNs)) {
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
        if (state == State.CONNECTED && !queue().isEmpty()) {
            send();
        }
        if (state == State.CONNECTED && !queue().isEmpty()) {
            state = State.LEAVING;
            deadlineNs = wire.nowNs() + CLOSE_NS;
        } else if (state != State.LEAVING) {
            end();
        }
        wire.forget(this);
    }
}
