package dev.starling.transport.tcp;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Accepts connections, and keeps them until their peers are proven. Anyone may connect, so everything here has a bound:
 * connections in all, connections of one address, connections accepted in a second, memory of each, and the time until
 * a proof. Beyond a bound the oldest connection of the address that has most is closed. The connections of proven peers
 * are elsewhere and are polled far more often, so that a flood does not cost them.
 */
final class Gate implements AutoCloseable {
    static final int MAX_UNPROVEN = 256;
    static final int MAX_OF_ADDRESS = 64;
    static final int BACKLOG = 256;

    private static final long POLL_NS = TimeUnit.MICROSECONDS.toNanos(500);
    private static final int ACCEPTED_PER_SECOND = 1000;
    private static final int ACCEPTED_AT_ONCE = 64;

    private static final System.Logger LOG = System.getLogger(Gate.class.getName());

    private final TcpWire wire;
    private final ServerSocketChannel listener;
    private final long timeToProveNs;
    private final Selector selector;
    private final Consumer<SelectionKey> onReady = this::onReady;
    /** The oldest first. */
    private final Deque<InboundConnection> unproven = new ArrayDeque<>();
    /** Connections with messages that wait until the wire may deliver more, in the order of their turns. */
    private final Deque<InboundConnection> delayed = new ArrayDeque<>();
    private final Map<InetAddress, Integer> counts = new HashMap<>();
    private long nextPollNs;
    private long lastPollNs;
    private double allowance = ACCEPTED_AT_ONCE;
    private int work;

    Gate(TcpWire wire, ServerSocketChannel listener, long timeToProveNs) throws IOException {
        this.wire = wire;
        this.listener = listener;
        this.timeToProveNs = timeToProveNs;
        lastPollNs = wire.nowNs();
        selector = Selector.open();
        listener.register(selector, SelectionKey.OP_ACCEPT);
    }

    /** Returns the number of connections whose peers are unproven. */
    int size() {
        return unproven.size();
    }

    /** Accepts, receives and closes connections, if it is time; returns the amount of work done. */
    int poll(long now) throws IOException {
        if (now < nextPollNs) {
            return 0;
        }
        nextPollNs = now + POLL_NS;
        allowance = Math.min(ACCEPTED_AT_ONCE, allowance + (now - lastPollNs) * 1e-9 * ACCEPTED_PER_SECOND);
        lastPollNs = now;
        work = 0;
        for (int i = delayed.size(); i > 0 && wire.hasRoom(); i--) {
            receive(delayed.removeFirst());
        }
        selector.selectNow(onReady);
        while (!unproven.isEmpty() && now - unproven.peekFirst().sinceNs() > timeToProveNs) {
            unproven.peekFirst().turnAway();
        }
        return work;
    }

    private void onReady(SelectionKey key) {
        if (key.attachment() instanceof InboundConnection connection) {
            if (!connection.isDelayed()) {
                receive(connection);
            }
        } else {
            accept();
        }
    }

    private void receive(InboundConnection connection) {
        work += connection.receive();
        if (connection.isDelayed() && !connection.isProven()) {
            delayed.addLast(connection);
        }
    }

    private void accept() {
        try {
            SocketChannel channel = null;
            while (allowance >= 1 && (channel = listener.accept()) != null) {
                allowance--;
                work++;
                admit(channel);
            }
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "cannot accept a connection: {0}", e.getMessage());
        }
    }

    private void admit(SocketChannel channel) {
        try {
            wire.configure(channel);
            InboundConnection connection = new InboundConnection(wire, channel);
            connection.register(selector);
            unproven.addLast(connection);
            int count = counts.merge(connection.host(), 1, Integer::sum);
            if (count > MAX_OF_ADDRESS) {
                turnAwayOldest(connection.host());
            } else if (unproven.size() > MAX_UNPROVEN) {
                turnAwayOldest(Collections.max(counts.entrySet(), Map.Entry.comparingByValue()).getKey());
            }
        } catch (IOException e) {
            TcpWire.close(channel);
        }
    }

    private void turnAwayOldest(InetAddress host) {
        for (InboundConnection each : unproven) {
            if (each.host().equals(host)) {
                each.turnAway();
                return;
            }
        }
    }

    /** Releases a connection whose peer is proven. */
    void release(InboundConnection connection) {
        forget(connection);
        connection.deregister(selector);
    }

    /** Forgets a connection that is closed or released. */
    void forget(InboundConnection connection) {
        if (unproven.remove(connection)) {
            delayed.remove(connection);
            counts.merge(connection.host(), -1, (count, less) -> count + less == 0 ? null : count + less);
        }
    }

    @Override
    public void close() {
        while (!unproven.isEmpty()) {
            unproven.peekFirst().close();
        }
        TcpWire.close(listener);
        TcpWire.close(selector);
    }
}
