package dev.starling.transport.tcp;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.Objects;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** A further connection of a link, for long messages. A link can do without one until it has sent over it. */
final class Rail {
    private static final System.Logger LOG = System.getLogger(Rail.class.getName());

    private final TcpWire wire;
    private final TcpLink link;
    private final long ticket;
    private final ByteBuffer answer = ByteBuffer.allocateDirect(Unit.REPLY);
    /** {@code null} after the end. */
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

    private Rail(TcpWire wire, TcpLink link, long ticket) {
        this.wire = wire;
        this.link = link;
        this.ticket = ticket;
    }

    /** Begins to connect. */
    static Rail open(TcpWire wire, TcpLink link, InetSocketAddress peer, long ticket) {
        Rail rail = new Rail(wire, link, ticket);
        rail.connect(peer);
        return rail;
    }

    private void connect(InetSocketAddress peer) {
        try {
            SocketChannel opened = SocketChannel.open(TcpWire.family(peer.getAddress()));
            channel = opened;
            wire.configure(opened);
            key = opened.register(wire.selector(), SelectionKey.OP_CONNECT, this);
            if (opened.connect(peer)) {
                greet(opened);
            }
        } catch (IOException | UnsupportedOperationException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    private void greet(SocketChannel connected) throws IOException {
        wire.established(connected);
        key.interestOps(SelectionKey.OP_READ);
        ByteBuffer preamble = ByteBuffer.allocateDirect(Unit.PREAMBLE);
        Unit.putRail(new UnsafeBuffer(preamble), 0, ticket);
        if (connected.write(preamble) < Unit.PREAMBLE) {
            fail("there is no room for " + Unit.PREAMBLE + " bytes");
        }
    }

    /** Returns whether the peer has answered, so that messages can be sent. */
    boolean isReady() {
        return queue != null;
    }

    SendQueue queue() {
        return Objects.requireNonNull(queue);
    }

    /** Returns whether nothing waits to be sent. */
    boolean isEmpty() {
        return queue == null || queue.isEmpty();
    }

    int onReady() {
        try {
            SocketChannel open = channel;
            if (open == null) {
                return 0;
            }
            if (key.isConnectable()) {
                if (open.finishConnect()) {
                    greet(open);
                }
                return 1;
            }
            if (key.isReadable()) {
                listen(open);
            }
            if (blocked && key.isValid() && key.isWritable()) {
                blocked = false;
                key.interestOps(SelectionKey.OP_READ);
                send();
            }
        } catch (IOException e) {
            fail(String.valueOf(e.getMessage()));
        }
        return 1;
    }

    private void listen(SocketChannel from) throws IOException {
        if (isReady()) {
            answer.clear();
        }
        if (from.read(answer) < 0) {
            fail("it closed the connection");
        } else if (!isReady() && !answer.hasRemaining()) {
            if (Unit.isReply(new UnsafeBuffer(answer), 0)) {
                memory = wire.buffers().acquireLarge();
                queue = new SendQueue(memory);
            } else {
                fail("it answered in another protocol");
            }
        }
    }

    /** Writes what waits, as far as there is room. */
    void send() {
        SendQueue waiting = queue;
        SocketChannel to = channel;
        if (waiting == null || to == null || waiting.isEmpty() || blocked) {
            return;
        }
        try {
            blocked = !waiting.writeTo(to);
            if (blocked) {
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            }
        } catch (IOException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    /** Writes what waits although no selector has reported that there is room. */
    void retry() {
        blocked = false;
    }

    private void fail(String why) {
        boolean used = isReady();
        close();
        if (used) {
            link.onLostRail(why);
        } else {
            LOG.log(Level.DEBUG, "cannot open a further connection: {0}", why);
        }
    }

    void close() {
        if (channel != null) {
            TcpWire.close(channel);
            channel = null;
        }
        if (queue != null) {
            queue.clear();
            queue = null;
            wire.buffers().release(memory);
        }
    }
}
