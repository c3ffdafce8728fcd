package dev.starling.transport.tcp;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.tcp.Registrations.Registered;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

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
    /** Data of a write from this length on are sent from where they lie. */
    private static final int MIN_UNCOPIED = 16 << 10;

    private final TcpWire wire;
    private final InetSocketAddress peer;
    private final ByteBuffer answer = ByteBuffer.allocateDirect(Unit.REPLY);
    private final UnsafeBuffer answerView = new UnsafeBuffer(answer);
    private final UnsafeBuffer small = new UnsafeBuffer(0, 0);
    private final PendingWrites writes = new PendingWrites();
    private State state = State.APART;
    private SocketChannel channel;
    private SelectionKey key;
    private MemorySegment memory;
    private SendQueue queue;
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
    public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        if (state != State.CONNECTED) {
            return unavailable();
        }
        int length = headerLength + bodyLength;
        if (length > TcpWire.MAX_MESSAGE) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a message must have at most "
                    + TcpWire.MAX_MESSAGE + " bytes, got " + length, "");
        }
        int unit = Unit.messageUnit(length);
        int at = queue.reserve(unit);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        putMessage(at, header, headerOffset, headerLength, body, bodyOffset, bodyLength);
        queue.append(unit);
        sendUnlessPolled();
        return Wire.SENT;
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
        if (blocked || queue.isEmpty()) {
            return;
        }
        try {
            blocked = !queue.writeTo(channel);
            if (blocked) {
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            }
        } catch (IOException e) {
            listen();
            breakOff(e.getMessage());
        }
    }

    /** Continues what a selector reports, and returns the amount of work done. */
    int onReady() {
        try {
            switch (state) {
                case CONNECTING -> {
                    if (channel.finishConnect()) {
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
            breakOff(e.getMessage());
        }
        return 1;
    }

    private void connect(long now) {
        deadlineNs = now + ANSWER_NS;
        state = State.CONNECTING;
        try {
            channel = SocketChannel.open(TcpWire.family(peer.getAddress()));
            wire.configure(channel);
            key = channel.register(wire.selector(), SelectionKey.OP_CONNECT, this);
            if (channel.connect(peer)) {
                greet();
            }
        } catch (IOException e) {
            breakOff(e.getMessage());
        }
    }

    private void greet() throws IOException {
        state = State.GREETING;
        key.interestOps(SelectionKey.OP_READ);
        ByteBuffer preamble = wire.preamble();
        int length = preamble.remaining();
        if (channel.write(preamble) < length) {
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
                int length = channel.read(answer);
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
            breakOff(e.getMessage());
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
            writes.breakOff(queue.piecesSent());
            wire.buffers().release(memory);
            queue = null;
        }
        blocked = false;
        turnedAway = false;
    }

    /** Does what is due; returns the amount of work done. */
    int work(long now) {
        int work = writes.complete(queue == null ? 0 : queue.piecesSent());
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
                if (state == State.LEAVING && (queue.isEmpty() || now >= deadlineNs)) {
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
        return state == State.OVER && writes.isEmpty();
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
        if (state == State.CONNECTED && !queue.isEmpty()) {
            send();
        }
        if (state == State.CONNECTED && !queue.isEmpty()) {
            state = State.LEAVING;
            deadlineNs = wire.nowNs() + CLOSE_NS;
        } else if (state != State.LEAVING) {
            end();
        }
        wire.forget(this);
    }

    RemoteWrites.Target attach(RegistrationKey target) {
        if (state != State.CONNECTED) {
            throw new TransportException(TransportException.Problem.LOST, "the link to " + peer + " is not connected",
                    "attach a key after the peer has sent it and this link has sent a message");
        }
        return new Target(target);
    }

    /** Memory that the peer registered. */
    private final class Target implements RemoteWrites.Target {
        private final RegistrationKey target;

        Target(RegistrationKey target) {
            this.target = target;
        }

        @Override
        public int put(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag) {
            return write(target, offset, source, completion, tag, null, 0, -1);
        }

        @Override
        public int putAndSend(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag,
                DirectBuffer message, int messageOffset, int messageLength) {
            return write(target, offset, source, completion, tag, message, messageOffset, messageLength);
        }

        @Override
        public boolean isOrdered() {
            return true;
        }

        @Override
        public void close() { }
    }

    /** Sends a write and, if its length is not negative, a message. */
    private int write(RegistrationKey target, long offset, MemorySegment source, RemoteWrites.Completion completion,
            long tag, DirectBuffer message, int messageOffset, int messageLength) {
        long length = source.byteSize();
        target.check(offset, length);
        if (state != State.CONNECTED) {
            int code = unavailable();
            return code == Wire.NOT_CONNECTED ? Wire.BACK_PRESSURED : code;
        }
        boolean copies = length < MIN_UNCOPIED;
        int padding = Unit.padding(length);
        int behind = padding + (messageLength < 0 ? 0 : Unit.messageUnit(messageLength));
        int at = writes.isFull() || !copies && !queue.hasRoomForPiece() ? -1
                : queue.reserve(Unit.WRITE_HEADER + (copies ? (int) length : 0) + behind);
        if (at < 0) {
            return Wire.BACK_PRESSURED;
        }
        MutableDirectBuffer bytes = queue.bytes();
        Unit.putWriteHeader(bytes, at, target, offset, length);
        queue.append(Unit.WRITE_HEADER);
        at += Unit.WRITE_HEADER;
        if (copies) {
            small.wrap(source.address(), (int) length);
            bytes.putBytes(at, small, 0, (int) length);
            queue.append((int) length);
            at += (int) length;
        } else {
            Registered registered = wire.registrations().containing(source);
            queue.append(registered, registered.offset(source.address()), length);
        }
        bytes.setMemory(at, padding, (byte) 0);
        at += padding;
        if (messageLength >= 0) {
            putMessage(at, message, messageOffset, messageLength, null, 0, 0);
        }
        if (behind > 0) {
            queue.append(behind);
        }
        writes.add(completion, tag, copies ? 0 : queue.piecesAdded());
        sendUnlessPolled();
        return Wire.SENT;
    }

    private void putMessage(int at, DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body,
            int bodyOffset, int bodyLength) {
        MutableDirectBuffer bytes = queue.bytes();
        int length = headerLength + bodyLength;
        Unit.putMessageHeader(bytes, at, length);
        int to = at + Unit.MESSAGE_HEADER;
        bytes.putBytes(to, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            bytes.putBytes(to + headerLength, body, bodyOffset, bodyLength);
        }
        bytes.setMemory(to + length, Unit.padding(length), (byte) 0);
    }
}
