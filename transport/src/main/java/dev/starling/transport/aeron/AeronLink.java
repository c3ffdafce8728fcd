package dev.starling.transport.aeron;

import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import io.aeron.Aeron;
import io.aeron.CommonContext;
import io.aeron.ErrorCode;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.exceptions.AeronException;
import io.aeron.exceptions.RegistrationException;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;

/**
 * A way to one peer, which goes over the network until the peer is found on this host. Once connected it stays on its
 * way, and once disconnected it never comes back, for messages may have been lost in between.
 */
final class AeronLink implements Link {
    /** How often to look for a peer that is not there yet, and whether one on this host still is. */
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long PROBE_NS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long DRIVER_SILENCE_MS = TimeUnit.HOURS.toMillis(1);

    private final AeronWire wire;
    private final String endpoint;
    private final String key;

    private WireDirectory.Announcement peer;
    private Aeron client;
    private long registration = Aeron.NULL_VALUE;
    private ExclusivePublication publication;
    private TransportException failure;
    private long nextLookNs = System.nanoTime();
    private boolean connected;
    private boolean gone;
    private long goneNs;
    private long drainsBefore;
    private boolean closed;

    /**
     * Begins a link.
     *
     * @param key of the announcement that the peer makes if it is on this host, {@code null} to use the network anyway
     */
    AeronLink(AeronWire wire, String endpoint, String key) {
        this.wire = wire;
        this.endpoint = endpoint;
        this.key = key;
    }

    @Override
    public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        if (closed) {
            return Wire.CLOSED;
        }
        if (gone) {
            return wire.hasDrained(goneNs, drainsBefore) ? Wire.CLOSED : Wire.BACK_PRESSURED;
        }
        if (failure != null) {
            throw failure;
        }
        if (!connected && !connect()) {
            return Wire.NOT_CONNECTED;
        }
        if (headerLength + bodyLength > wire.maxMessageLength()) {
            throw new TransportException(Problem.ARGUMENT, "a message has at most " + wire.maxMessageLength()
                    + " bytes, got " + (headerLength + bodyLength), "choose longer terms: options term and ipcTerm");
        }
        long result = bodyLength == 0 ? publication.offer(header, headerOffset, headerLength)
                : publication.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
        if (result > 0) {
            return Wire.SENT;
        }
        if (result == Publication.BACK_PRESSURED || result == Publication.ADMIN_ACTION) {
            return Wire.BACK_PRESSURED;
        }
        // Disconnected, closed, or at the end of what a stream can count: no more will go this way.
        leave();
        return Wire.BACK_PRESSURED;
    }

    private void leave() {
        gone = true;
        goneNs = System.nanoTime();
        drainsBefore = wire.drains();
    }

    /** Goes on with what takes its time; returns whether something came of it. */
    int upkeep(long now) {
        if (closed || gone || failure != null) {
            return 0;
        }
        if (peer != null && client != wire.client()) {
            client.conductorAgentInvoker().invoke();
            if (client.isClosed()) {
                leavePeer();
                return 1;
            }
        }
        if (now >= nextLookNs) {
            nextLookNs = now + (connected ? PROBE_NS : LOOK_NS);
            look();
        }
        return publication == null ? register() : 0;
    }

    /** Settles which way messages go, once there is one. */
    private boolean connect() {
        if (publication == null || !publication.isConnected()) {
            return false;
        }
        if (peer == null) {
            look(); // It may have come since, and have announced itself before it listened.
        }
        connected = publication != null;
        return connected;
    }

    private void look() {
        if (peer != null && peer.isAbandoned()) {
            leavePeer();
        }
        if (peer == null && key != null && !connected) {
            WireDirectory.Announcement found = WireDirectory.find(wire.settings().base(), key);
            if (found != null) {
                meet(found);
            }
        }
    }

    /** Returns whether messages go over the network. */
    boolean isNetworked() {
        return peer == null && connected && !gone;
    }

    /** Becomes a client of the peer's driver, and leaves the network. */
    private void meet(WireDirectory.Announcement found) {
        Aeron met = wire.client();
        if (!found.driver().equals(Path.of(met.context().aeronDirectoryName()))) {
            try {
                if (!CommonContext.isDriverActive(found.driver().toFile(), DRIVER_SILENCE_MS, ignored -> { })) {
                    return;
                }
                met = wire.connect(found.driver(), null, System::nanoTime);
            } catch (AeronException e) {
                AeronWire.LOG.log(Level.DEBUG, "{0} is about to come or go: {1}", endpoint, e.getMessage());
                return;
            }
        }
        withdraw();
        peer = found;
        client = met;
    }

    /** Ends the link through memory: for good if it was in use. */
    private void leavePeer() {
        if (connected) {
            leave();
        }
        withdraw();
        peer = null;
    }

    private int register() {
        try {
            if (registration == Aeron.NULL_VALUE) {
                if (peer == null) {
                    client = wire.client();
                    registration = client.asyncAddExclusivePublication(wire.networkChannel(endpoint),
                            AeronWire.networkStream());
                } else {
                    registration = client.asyncAddExclusivePublication(wire.localChannel(), peer.stream());
                }
                return 1;
            }
            publication = client.getExclusivePublication(registration);
            return publication == null ? 0 : 1;
        } catch (RegistrationException e) {
            Path directory = Path.of(client.context().aeronDirectoryName());
            failure = e.errorCode() == ErrorCode.STORAGE_SPACE
                    ? AeronSettings.noRoom(directory, "the link to " + endpoint + " has none: " + e.getMessage(), e)
                    : new TransportException(Problem.ARGUMENT, "no link to " + endpoint + ": " + e.getMessage(), "", e);
            return 1;
        }
    }

    @Override
    public String obstacle() {
        return connected || gone || closed ? "" : failure != null ? failure.getMessage()
                : peer != null ? "a process of this host listens at " + endpoint + " but has not answered"
                : "nobody answers at " + endpoint + " over UDP: no process listens there, a firewall keeps datagrams "
                + "back, or that process has no room for the link, which its own log says";
    }

    /** Gives up the publication, and the client if it is the link's own. */
    private void withdraw() {
        if (client != null && !client.isClosed()) {
            if (publication != null) {
                publication.close();
            } else if (registration != Aeron.NULL_VALUE && failure == null) {
                client.asyncRemovePublication(registration);
            }
            if (client != wire.client()) {
                client.close();
            }
        }
        publication = null;
        registration = Aeron.NULL_VALUE;
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        boolean flush = peer == null && connected && !gone && publication != null && publication.position() > 0;
        long flushed = flush ? registration : Aeron.NULL_VALUE;
        withdraw();
        wire.forget(this, flushed);
    }
}
