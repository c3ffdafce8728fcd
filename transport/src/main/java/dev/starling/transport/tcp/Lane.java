package dev.starling.transport.tcp;

import java.util.ArrayList;
import java.util.List;

/** The connections of one link, as its receiver sees them: messages of all of them are delivered in one order. */
final class Lane {
    static final int MAX_CONNECTIONS = 16;

    private final List<InboundConnection> connections = new ArrayList<>();
    private final long ticket;
    private long delivered;
    private long lastReadNs;

    /** Creates a lane of one connection; {@code ticket} permits its peer to open others. */
    Lane(InboundConnection first, long ticket) {
        connections.add(first);
        this.ticket = ticket;
    }

    long ticket() {
        return ticket;
    }

    InboundConnection first() {
        return connections.getFirst();
    }

    /** Adds a connection; returns false if there are enough. */
    boolean add(InboundConnection connection) {
        return connections.size() < MAX_CONNECTIONS && connections.add(connection);
    }

    /** Returns whether a message is the next. */
    boolean isNext(long number) {
        return number == delivered;
    }

    void delivered() {
        delivered++;
    }

    void received(long now) {
        lastReadNs = now;
    }

    long lastReadNs() {
        return lastReadNs;
    }

    /** Removes a connection that has ended behind a whole message: none of its messages is missing. */
    void remove(InboundConnection connection) {
        connections.remove(connection);
    }

    /** Closes all connections, if {@code closed}, whose messages are missing, is one of them. */
    void close(InboundConnection closed) {
        if (connections.contains(closed)) {
            List<InboundConnection> all = List.copyOf(connections);
            connections.clear();
            all.forEach(InboundConnection::close);
        }
    }
}
