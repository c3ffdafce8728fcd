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
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.SequencedSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Accepts connections, and keeps them until their peers are proven. Anyone may connect, so everything here has a bound:
 * connections in all, connections of one address, connections accepted and messages delivered in a second, memory of
 * each, and the time until a proof. Beyond a bound the oldest connection of the address that has most is closed.
 * Connections that have sent a signed message do not count and have a bound of their own: strangers do not push them
 * out. All deliver one message each in turn. The connections of proven peers are elsewhere and are polled far more
 * often, so that a flood does not cost them.
 */
final class Gate implements AutoCloseable {
    static final int MAX_UNPROVEN = 256;
    static final int MAX_OF_ADDRESS = 64;
    static final int MAX_SIGNED = 64;
    static final int BACKLOG = 256;
    /**
     * Enough for the two messages of a handshake, ten times a second, on as many connections as there may be. A thread
     * that polls less often delivers fewer: each poll has a share of its messages for unproven peers.
     */
    static final int MESSAGES_PER_SECOND = 2 * 10 * MAX_UNPROVEN;
    static final int MESSAGES_AT_ONCE = 64;

    private static final long POLL_NS = TimeUnit.MICROSECONDS.toNanos(500);
    private static final long CROWDED_POLL_NS = TimeUnit.MILLISECONDS.toNanos(5);
    /** So many reads that complete no message are as bad as messages. */
    private static final int MAX_FUTILE_READS = 32;
    private static final int ACCEPTED_PER_SECOND = 1000;
    private static final int ACCEPTED_AT_ONCE = 64;

    private static final Comparator<SequencedSet<InboundConnection>> CROWDED_THEN_OLD =
            Comparator.<SequencedSet<InboundConnection>>comparingInt(Set::size)
                    .thenComparing(ofHost -> ofHost.getFirst().sinceNs(), Comparator.reverseOrder());

    private static final System.Logger LOG = System.getLogger(Gate.class.getName());

    private final TcpWire wire;
    private final ServerSocketChannel listener;
    private final long timeToProveNs;
    private final Selector selector;
    private final Consumer<SelectionKey> onReady = this::onReady;
    /** The oldest first. */
    private final SequencedSet<InboundConnection> unproven = new LinkedHashSet<>();
    private final Map<InetAddress, SequencedSet<InboundConnection>> byHost = new HashMap<>();
    /** Those that have sent a signed message, in the order in which they did; they are not among the others. */
    private final SequencedSet<InboundConnection> signed = new LinkedHashSet<>();
    /** Connections with messages that wait for their turn. */
    private final Deque<InboundConnection> delayed = new ArrayDeque<>();
    private long nextPollNs;
    private long lastPollNs;
    private double connectionAllowance = ACCEPTED_AT_ONCE;
    private double messageAllowance = MESSAGES_AT_ONCE;
    private int room;
    private int futileReads;

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
        return unproven.size() + signed.size();
    }

    /**
     * Accepts, receives and closes connections, if it is time.
     *
     * @param limit maximum number of messages to deliver
     * @return the number of messages delivered
     */
    int poll(long now, int limit) throws IOException {
        if (now < nextPollNs) {
            return 0;
        }
        double seconds = (now - lastPollNs) * 1e-9;
        lastPollNs = now;
        connectionAllowance = Math.min(ACCEPTED_AT_ONCE, connectionAllowance + seconds * ACCEPTED_PER_SECOND);
        messageAllowance = Math.min(MESSAGES_AT_ONCE, messageAllowance + seconds * MESSAGES_PER_SECOND);
        int budget = Math.min(limit, (int) messageAllowance);
        room = budget;
        futileReads = 0;
        // A message may turn away a connection that is itself delayed.
        for (int i = delayed.size(); i > 0 && room > 0 && !delayed.isEmpty(); i--) {
            receive(delayed.removeFirst());
        }
        selector.selectNow(onReady);
        while (!unproven.isEmpty() && isLate(unproven.getFirst(), now)) {
            unproven.getFirst().turnAway();
        }
        if (!signed.isEmpty()) {
            // The first to sign need not be the first to connect.
            signed.stream().filter(each -> isLate(each, now)).toList().forEach(InboundConnection::turnAway);
        }
        messageAllowance -= budget - room;
        // A selection takes long if many connections have more to read.
        nextPollNs = now + (messageAllowance < 1 || futileReads > MAX_FUTILE_READS ? CROWDED_POLL_NS : POLL_NS);
        return budget - room;
    }

    private boolean isLate(InboundConnection connection, long now) {
        return now - connection.sinceNs() > timeToProveNs;
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

    /** Reads from a connection, and delivers at most one of its messages; none if this poll has no room left. */
    private void receive(InboundConnection connection) {
        int turn = Math.min(1, room);
        int delivered = turn - wire.receive(connection, turn);
        room -= delivered;
        futileReads += 1 - delivered;
        if (connection.isDelayed() && !connection.isProven()) {
            delayed.addLast(connection);
        }
    }

    private void accept() {
        try {
            SocketChannel channel = null;
            while (connectionAllowance >= 1 && (channel = listener.accept()) != null) {
                connectionAllowance--;
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
            unproven.add(connection);
            SequencedSet<InboundConnection> ofHost = byHost.computeIfAbsent(connection.host(),
                    _ -> new LinkedHashSet<>());
            ofHost.add(connection);
            if (ofHost.size() > MAX_OF_ADDRESS) {
                ofHost.getFirst().turnAway();
            } else if (unproven.size() > MAX_UNPROVEN) {
                Collections.max(byHost.values(), CROWDED_THEN_OLD).getFirst().turnAway();
            }
        } catch (IOException e) {
            TcpWire.close(channel);
        }
    }

    /** Releases a connection whose peer is proven. */
    void release(InboundConnection connection) {
        forget(connection);
        connection.deregister(selector);
    }

    /** Keeps a connection, which has sent a signed message, apart from those that may have to go for others. */
    void prefer(InboundConnection connection) {
        if (remove(connection)) {
            signed.add(connection);
            if (signed.size() > MAX_SIGNED) {
                signed.getFirst().turnAway();
            }
        }
    }

    /** Forgets a connection that is closed or released. */
    void forget(InboundConnection connection) {
        if (remove(connection) || signed.remove(connection)) {
            delayed.remove(connection);
        }
    }

    private boolean remove(InboundConnection connection) {
        byHost.computeIfPresent(connection.host(), (_, ofHost) -> {
            ofHost.remove(connection);
            return ofHost.isEmpty() ? null : ofHost;
        });
        return unproven.remove(connection);
    }

    @Override
    public void close() {
        while (!unproven.isEmpty()) {
            unproven.getFirst().close();
        }
        while (!signed.isEmpty()) {
            signed.getFirst().close();
        }
        TcpWire.close(listener);
        TcpWire.close(selector);
    }
}
