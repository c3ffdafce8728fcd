package dev.starling.transport.tcp;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import org.agrona.concurrent.UnsafeBuffer;

/** A further connection of a link, for long messages. A link can do without one until it has sent over it. */
final class Rail {
    private static final System.Logger LOG = System.getLogger(Rail.class.getName());

    private final TcpWire wire;
    private final TcpLink link;
    private final long ticket;
    private final ByteBuffer answer = ByteBuffer.allocateDirect(Unit.REPLY);
    private SocketChannel channel;
    private SelectionKey key;
    private MemorySegment memory;
    /** {@code null} unless the peer has answered. */
    private SendQueue queue;
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
            channel = SocketChannel.open(TcpWire.family(peer.getAddress()));
            wire.configure(channel);
            key = channel.register(wire.selector(), SelectionKey.OP_CONNECT, this);
            if (channel.connect(peer)) {
                greet();
            }
        } catch (IOException e) {
            fail(e.getMessage());
        }
    }

    private void greet() throws IOException {
        wire.established(channel);
        key.interestOps(SelectionKey.OP_READ);
        ByteBuffer preamble = ByteBuffer.allocateDirect(Unit.PREAMBLE);
        Unit.putRail(new UnsafeBuffer(preamble), 0, ticket);
        if (channel.write(preamble) < Unit.PREAMBLE) {
            fail("there is no room for " + Unit.PREAMBLE + " bytes");
        }
    }

    /** Returns whether the peer has answered, so that messages can be sent. */
    boolean isReady() {
        return queue != null;
    }

    SendQueue queue() {
        return queue;
    }

    /** Returns whether nothing waits to be sent. */
    boolean isEmpty() {
        return queue == null || queue.isEmpty();
    }

    int onReady() {
        try {
            if (channel == null) {
                return 0;
            }
            if (key.isConnectable()) {
                if (channel.finishConnect()) {
                    greet();
                }
                return 1;
            }
            if (key.isReadable()) {
                listen();
            }
            if (blocked && key.isValid() && key.isWritable()) {
                blocked = false;
                key.interestOps(SelectionKey.OP_READ);
                send();
            }
        } catch (IOException e) {
            fail(e.getMessage());
        }
        return 1;
    }

    private void listen() throws IOException {
        if (isReady()) {
            answer.clear();
        }
        if (channel.read(answer) < 0) {
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
        if (isEmpty() || blocked) {
            return;
        }
        try {
            blocked = !queue.writeTo(channel);
            if (blocked) {
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            }
        } catch (IOException e) {
            fail(e.getMessage());
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
