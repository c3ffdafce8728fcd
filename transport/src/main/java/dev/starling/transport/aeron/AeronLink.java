package dev.starling.transport.aeron;

import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import io.aeron.Aeron;
import io.aeron.ErrorCode;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.exceptions.AeronException;
import io.aeron.exceptions.RegistrationException;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A link to one peer. It uses the network unless the peer is found on this host. Once connected, a link keeps its path;
 * once disconnected, it never reconnects, because messages may have been lost in between.
 */
final class AeronLink implements Link {
    /** Interval at which to look for a peer that is not there yet. */
    private static final long LOOKUP_NS = TimeUnit.MILLISECONDS.toNanos(20);

    private final AeronWire wire;
    private final String endpoint;
    private final @Nullable String key;

    /** {@code null} if the link uses the network. */
    private WireDirectory.@Nullable Announcement peer;
    /** That of the wire or, for a peer on this host, one of the peer's driver. */
    private @Nullable Aeron client;
    private long registration = Aeron.NULL_VALUE;
    private @Nullable ExclusivePublication publication;
    private @Nullable TransportException failure;
    private long nextLookupNs = System.nanoTime();
    private boolean connected;
    private boolean disconnected;
    private long disconnectedNs;
    private long drainsBefore;
    private boolean closed;
    private boolean toMember;

    /**
     * Begins a link.
     *
     * @param key of the announcement that the peer makes if it is on this host, {@code null} to always use the network
     */
    AeronLink(AeronWire wire, String endpoint, @Nullable String key) {
        this.wire = wire;
        this.endpoint = endpoint;
        this.key = key;
    }

    @Override
    public int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
            int bodyOffset, int bodyLength) {
        if (closed) {
            return Wire.CLOSED;
        }
        if (disconnected) {
            return wire.hasDrained(disconnectedNs, drainsBefore) ? Wire.CLOSED : Wire.BACK_PRESSURED;
        }
        if (failure != null) {
            throw failure;
        }
        if (!connected && !connect()) {
            return Wire.NOT_CONNECTED;
        }
        if (headerLength + bodyLength > wire.maxMessageLength()) {
            throw new TransportException(Problem.ARGUMENT, "a message must have at most " + wire.maxMessageLength()
                    + " bytes, got " + (headerLength + bodyLength), "choose longer terms: options term and ipcTerm");
        }
        ExclusivePublication stream = Objects.requireNonNull(publication);
        long result = bodyLength == 0 ? stream.offer(header, headerOffset, headerLength)
                : stream.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
        if (result > 0) {
            return Wire.SENT;
        }
        if (result == Publication.BACK_PRESSURED || result == Publication.ADMIN_ACTION) {
            return Wire.BACK_PRESSURED;
        }
        // Disconnected, closed, or at the maximum position of a stream: nothing more can be sent on this path.
        disconnect();
        return Wire.BACK_PRESSURED;
    }

    @Override
    public boolean hasRoom(int length) {
        if (closed || !connected || disconnected) {
            return true;
        }
        ExclusivePublication stream = Objects.requireNonNull(publication);
        long window = stream.availableWindow();
        return window < 0 || window >= length || !stream.isConnected();
    }

    @Override
    public boolean isBroken() {
        return disconnected && !closed;
    }

    @Override
    public void onProof() {
        toMember = true;
        wire.onMember();
    }

    /** Returns whether this link does not merely answer a process that may be a stranger. */
    boolean isToMember() {
        return toMember;
    }

    private void disconnect() {
        disconnected = true;
        disconnectedNs = System.nanoTime();
        drainsBefore = wire.drains();
    }

    /** Continues slow work; returns whether there was progress. */
    int upkeep(long now) {
        if (closed || disconnected || failure != null) {
            return 0;
        }
        if (peer != null && client != null && client != wire.client()) {
            Uninterrupted.invoke(client);
            if (client.isClosed()) {
                leaveLocalPath();
                return 1;
            }
        }
        if (now - nextLookupNs >= 0) {
            nextLookupNs = now + (connected ? wire.probeNs() : LOOKUP_NS);
            lookUp();
        }
        return publication == null && !disconnected ? register() : 0;
    }

    /** Settles the path of messages, once there is one. */
    private boolean connect() {
        if (publication == null || !publication.isConnected()) {
            return false;
        }
        if (peer == null) {
            lookUp(); // The peer may have started meanwhile, and have announced itself before it listened.
        }
        connected = publication != null;
        return connected;
    }

    private void lookUp() {
        if (peer != null && peer.isAbandoned()) {
            leaveLocalPath();
        }
        if (peer == null && key != null && !connected) {
            WireDirectory.Announcement found = WireDirectory.find(wire.settings().base(), key);
            if (found != null) {
                useLocalPath(found);
            }
        }
    }

    /** Returns whether messages travel over the network, or the last messages of a peer that has left may still. */
    boolean isNetworked() {
        return peer == null && connected && !closed;
    }

    /** Becomes a client of the peer's driver instead of using the network. */
    private void useLocalPath(WireDirectory.Announcement found) {
        Aeron candidate = wire.client();
        if (!found.driver().equals(Path.of(candidate.context().aeronDirectoryName()))) {
            try {
                candidate = Uninterrupted.call(() -> wire.connect(found.driver(), null, System::nanoTime));
            } catch (AeronException e) {
                AeronWire.LOG.log(Level.DEBUG, "{0} is starting or stopping: {1}", endpoint, e.getMessage());
                return;
            }
        }
        withdraw();
        peer = found;
        client = candidate;
    }

    /** Ends the path through shared memory, and with it the link if it was in use. */
    private void leaveLocalPath() {
        if (connected) {
            disconnect();
        }
        withdraw();
        peer = null;
    }

    private int register() {
        Aeron at = peer == null ? wire.client() : Objects.requireNonNull(client);
        client = at;
        try {
            if (registration == Aeron.NULL_VALUE) {
                if (peer == null) {
                    registration = at.asyncAddExclusivePublication(wire.networkChannel(endpoint),
                            AeronWire.networkStream());
                } else {
                    registration = at.asyncAddExclusivePublication(wire.localChannel(), peer.stream());
                }
                return 1;
            }
            publication = at.getExclusivePublication(registration);
            return publication == null ? 0 : 1;
        } catch (RegistrationException e) {
            Path directory = Path.of(at.context().aeronDirectoryName());
            failure = e.errorCode() == ErrorCode.STORAGE_SPACE
                    ? AeronSettings.noRoom(directory, "the link to " + endpoint + " has no room: " + e.getMessage(), e)
                    : new TransportException(Problem.ARGUMENT, "cannot open a link to " + endpoint + ": "
                            + e.getMessage(), "", e);
            return 1;
        }
    }

    @Override
    public String obstacle() {
        return connected || disconnected || closed ? "" : failure != null ? String.valueOf(failure.getMessage())
                : peer != null ? "a process on this host listens at " + endpoint + " but has not answered"
                : "no answer from " + endpoint + " over UDP: no process listens there, a firewall drops the datagrams, "
                + "or that process has no room for the link, which its own log then reports";
    }

    /** Closes the publication, and the client if it belongs to the link. */
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
        boolean flush = peer == null && connected && !disconnected && publication != null && publication.position() > 0;
        long flushed = flush ? registration : Aeron.NULL_VALUE;
        withdraw();
        wire.forget(this, flushed);
    }
}
