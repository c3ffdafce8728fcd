package dev.starling.distributed.group;

import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * A process's connections to the other members of its group, and the losses among them. Used under the group's lock.
 */
final class Links {
    private final Transport transport;
    private final Long2ObjectHashMap<Endpoint> endpoints = new Long2ObjectHashMap<>();
    /** By rank, members of this epoch that closed their connection, with the loss to report if they are needed. */
    private final Map<Integer, PeerLostException> departures = new HashMap<>();
    /** By member id, the loss because of which the member left, as it reported. */
    private final Map<Long, PeerLostException> reportedLosses = new HashMap<>();
    /** Ids of members of this epoch that were connected and then lost. */
    private final Set<Long> lost = new HashSet<>();
    private View view = new View(0, List.of());
    private long ownId;

    Links(Transport transport) {
        this.transport = transport;
    }

    /** Returns the connection to a member, or {@code null}. */
    Endpoint get(long id) {
        return endpoints.get(id);
    }

    /** Returns all connections, by member id. */
    Long2ObjectHashMap<Endpoint> all() {
        return endpoints;
    }

    /** Returns the member at the other end of a connection, or {@code null} if it is not in the present epoch. */
    Member member(Endpoint endpoint) {
        return endpoint.attachment() instanceof Long id ? view.byId(id) : null;
    }

    /** Starts to connect to the members of a new epoch, and closes the connections to all other processes. */
    void onNewView(View next, long id) {
        if (id != ownId) {
            // After a rejoin this process has another id, which the others do not associate with old connections.
            view.members().forEach(member -> drop(member.id()));
        }
        view = next;
        ownId = id;
        departures.clear();
        reportedLosses.clear();
        lost.clear();
        for (Member member : next.members()) {
            Endpoint known = endpoints.get(member.id());
            if (known != null && !known.isConnected() && known.state() != Endpoint.State.CONNECTING) {
                drop(member.id());
                known = null;
            }
            // Of two members, the one with the greater id connects.
            if (known == null && member.id() < id) {
                connect(member);
            }
        }
        for (Long former : List.copyOf(endpoints.keySet())) {
            if (next.byId(former) == null) {
                drop(former);
            }
        }
    }

    private void drop(Long id) {
        Endpoint endpoint = endpoints.remove(id);
        if (endpoint != null) {
            endpoint.attach(null);
            endpoint.close();
        }
    }

    private void connect(Member member) {
        Endpoint endpoint = transport.connect(member.address(), ByteBuffer.allocate(Long.BYTES).putLong(ownId).array());
        endpoint.attach(member.id());
        endpoints.put(member.id(), endpoint);
    }

    /** Handles a connection that another process opened. */
    void onAccepted(Endpoint endpoint) {
        if (endpoint.greeting().length == Long.BYTES) {
            long id = ByteBuffer.wrap(endpoint.greeting()).getLong();
            drop(id);
            endpoint.attach(id);
            endpoints.put(id, endpoint);
        } else {
            endpoint.close();
        }
    }

    /** Returns whether all members are connected; retries connections that failed before they were established. */
    boolean areReached() {
        boolean all = true;
        for (Member member : view.members()) {
            if (!isReached(member)) {
                all = false;
                Endpoint endpoint = endpoints.get(member.id());
                if (endpoint != null && endpoint.state() == Endpoint.State.LOST && member.id() < ownId
                        && !lost.contains(member.id())) {
                    endpoint.close();
                    connect(member);
                }
            }
        }
        return all;
    }

    private boolean isReached(Member member) {
        Endpoint endpoint = endpoints.get(member.id());
        return member.id() == ownId || endpoint != null && endpoint.isConnected();
    }

    /** Returns whether more than half of the members are connected, this one included, or half of them with rank 0. */
    boolean areMostReached() {
        long reached = view.members().stream().filter(this::isReached).count();
        return 2 * reached > view.world() || 2 * reached == view.world() && isReached(view.members().getFirst());
    }

    /** Describes the members that are not connected, with the reasons. */
    String describeUnreached() {
        StringBuilder text = new StringBuilder();
        for (Member member : view.members()) {
            if (!isReached(member)) {
                Endpoint endpoint = endpoints.get(member.id());
                text.append(text.isEmpty() ? "no connection yet to rank " : ", ").append(member.rank())
                        .append(endpoint == null || endpoint.reason().isEmpty() ? "" : " (" + endpoint.reason() + ')');
            }
        }
        return text.isEmpty() ? "this process is connected to all, and the coordinator waits for other members"
                : text.toString();
    }

    /**
     * Handles the end of a connection.
     *
     * @return the loss to report; {@code null} if the peer is not in this epoch, or has left with a goodbye: it may be
     *     done, and all its messages have arrived
     */
    PeerLostException onLost(Endpoint endpoint) {
        Member member = member(endpoint);
        if (member == null || endpoints.get(member.id()) != endpoint) {
            return null;
        }
        lost.add(member.id());
        PeerLostException loss = new PeerLostException(member.rank(), Duration.ofNanos(transport.nanoTime()
                - endpoint.lastReceivedNs()), endpoint.reason());
        if (!endpoint.receivedGoodbye()) {
            return loss;
        }
        departures.put(member.rank(), reportedLosses.getOrDefault(member.id(), loss));
        return null;
    }

    /** Returns whether a member has left in this epoch. */
    boolean hasDepartures() {
        return !departures.isEmpty();
    }

    /** Returns the loss to report if a member that has left is needed; {@code null} if it has not left. */
    PeerLostException departure(int rank) {
        return departures.get(rank);
    }

    /** Returns the loss of a member of the last view that the next one lacks. */
    PeerLostException absence(long id) {
        int rank = view.byId(id).rank();
        PeerLostException left = departures.get(rank);
        Endpoint endpoint = endpoints.get(id);
        return left != null ? left : new PeerLostException(rank, Duration.ofNanos(endpoint == null ? 0
                : transport.nanoTime() - endpoint.lastReceivedNs()), "the group continues without it");
    }

    /** Returns the loss because of which a member left, or {@code null} if it has reported none. */
    PeerLostException reportedLoss(long id) {
        return reportedLosses.get(id);
    }

    /** Stores the loss because of which a member leaves, if the message is plausible. */
    void onReportedLoss(Endpoint from, long epoch, LossReport loss) {
        Member member = member(from);
        if (member != null && epoch == view.epoch() && loss.rank() >= 0 && loss.rank() < view.world()
                && loss.rank() != member.rank() && view.members().get(loss.rank()).id() != ownId
                && loss.silentNs() >= 0) {
            reportedLosses.put(member.id(), loss.reportedBy(member.rank()));
        }
    }

    /** Sends a message to all members; returns the outboxes, which may still hold it. */
    List<Outbox> sendToAll(Control message) {
        List<Outbox> outboxes = new ArrayList<>();
        for (Endpoint endpoint : List.copyOf(endpoints.values())) {
            Outbox outbox = new Outbox(endpoint);
            outbox.send(message);
            outboxes.add(outbox);
        }
        return outboxes;
    }
}
