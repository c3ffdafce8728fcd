package dev.starling.distributed;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.agrona.collections.Long2ObjectHashMap;

/** A process's connections to the other members of its group, and what became of them. Used under the group's lock. */
final class Links {
    private final Transport transport;
    private final Long2ObjectHashMap<Endpoint> endpoints = new Long2ObjectHashMap<>();
    /** Those of this epoch who closed their connection, by rank, and the loss to report if they are missed. */
    private final Map<Integer, PeerLostException> left = new HashMap<>();
    /** By member, the loss that it gave up because of, as it said. */
    private final Map<Long, PeerLostException> given = new HashMap<>();
    /** Those of this epoch who were reached, and lost. */
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

    /** Returns all, by member. */
    Long2ObjectHashMap<Endpoint> all() {
        return endpoints;
    }

    /** Returns the member at the other end, or {@code null} if it is none of the present epoch. */
    Member member(Endpoint endpoint) {
        return endpoint.attachment() instanceof Long id ? view.byId(id) : null;
    }

    /** Begins to connect to the members of a new epoch, and closes the connections to all others. */
    void change(View next, long id) {
        if (id != ownId) {
            // Taken in again, this process is another member: the others do not know it by its old connections.
            view.members().forEach(member -> drop(member.id()));
        }
        view = next;
        ownId = id;
        left.clear();
        given.clear();
        lost.clear();
        for (Member member : next.members()) {
            Endpoint known = endpoints.get(member.id());
            if (known != null && !known.isConnected() && known.state() != Endpoint.State.CONNECTING) {
                drop(member.id());
                known = null;
            }
            // Of two members the one that came later connects.
            if (known == null && member.id() < id) {
                connect(member);
            }
        }
        for (Long gone : List.copyOf(endpoints.keySet())) {
            if (next.byId(gone) == null) {
                drop(gone);
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

    /** Takes a connection that another process began. */
    void greeted(Endpoint endpoint) {
        if (endpoint.greeting().length == Long.BYTES) {
            long id = ByteBuffer.wrap(endpoint.greeting()).getLong();
            drop(id);
            endpoint.attach(id);
            endpoints.put(id, endpoint);
        } else {
            endpoint.close();
        }
    }

    /** Returns whether all members are reached; where a way broke before the other end was, it is tried again. */
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

    /** Says who is not reached, and why. */
    String unreached() {
        StringBuilder who = new StringBuilder();
        for (Member member : view.members()) {
            if (!isReached(member)) {
                Endpoint endpoint = endpoints.get(member.id());
                who.append(who.isEmpty() ? "no way yet to rank " : ", ").append(member.rank())
                        .append(endpoint == null || endpoint.reason().isEmpty() ? "" : " (" + endpoint.reason() + ')');
            }
        }
        return who.isEmpty() ? "all are reached from here, and the coordinator waits for others" : who.toString();
    }

    /**
     * Notes that a connection ended.
     *
     * @return the loss to report now; {@code null} if it was to none of this epoch, or to one that may be done, and
     *     what it contributed before is here
     */
    PeerLostException lose(Endpoint endpoint) {
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
        left.put(member.rank(), given.getOrDefault(member.id(), loss));
        return null;
    }

    boolean haveAnyLeft() {
        return !left.isEmpty();
    }

    /** Returns the loss to report if a member is missed that has left; {@code null} if it has not. */
    PeerLostException left(int rank) {
        return left.get(rank);
    }

    /** Returns the loss that a member gave up because of, or {@code null} if it has not said so. */
    PeerLostException given(long id) {
        return given.get(id);
    }

    /** Takes what a member says of why it leaves. */
    void giveUp(Endpoint from, Control.Lost why) {
        Member member = member(from);
        if (member != null && why.epoch() == view.epoch() && why.rank() >= 0 && why.rank() < view.world()
                && why.rank() != member.rank() && view.members().get(why.rank()).id() != ownId
                && why.unheardNs() >= 0) {
            given.put(member.id(), new PeerLostException(why.rank(), Duration.ofNanos(why.unheardNs()), member.rank(),
                    why.reason()));
        }
    }
}
