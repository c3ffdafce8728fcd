package dev.starling.distributed.group;

import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.Partners;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.agrona.collections.Long2ObjectHashMap;
import org.jspecify.annotations.Nullable;

/**
 * A process's connections to the other members of its group that it {@linkplain Partners needs}, and the losses among
 * them. Used under the group's lock.
 *
 * <p>Of two members the one with the greater id connects. The other, if it needs a connection that only it knows of,
 * <em>knocks</em>: it opens a connection whose greeting requests that.
 */
final class Links {
    private static final int KNOCK = Long.BYTES + 1;
    /** How often a member knocks that does not get a connection. */
    private static final long KNOCK_NS = 100_000_000;

    private final Transport transport;
    private final int maxMesh;
    private final Long2ObjectHashMap<Endpoint> endpoints = new Long2ObjectHashMap<>();
    /** By rank, members of this epoch that closed their connection, with the loss to report if they are needed. */
    private final Map<Integer, PeerLostException> departures = new HashMap<>();
    /** By member id, the loss because of which the member left, as it reported. */
    private final Map<Long, PeerLostException> reportedLosses = new HashMap<>();
    /**
     * Ids of members, of this epoch and of the one that started last, that have left the group, and not only closed the
     * connection to this process.
     */
    private final Set<Long> leavers = new HashSet<>();
    /** Ids of members of this epoch that were connected and then lost, or were not reached in time. */
    private final Set<Long> lost = new HashSet<>();
    /** By id, in the order of ranks, the partners of this epoch, followed by members that were used otherwise. */
    private final Map<Long, Member> needed = new LinkedHashMap<>();
    /** By id, when this process first needed a connection to a member that is not its partner, and is not reached. */
    private final Map<Long, Long> demandedNs = new HashMap<>();
    private final Map<Long, Knock> knocks = new HashMap<>();
    /** Ids of members whose connections are to be closed as soon as there is room for a goodbye. */
    private final Set<Long> unneeded = new HashSet<>();
    private View view = new View(0, List.of());
    /** When this process learned of the epoch. */
    private long viewNs;
    /** Whether this process, under its present id, has been in an epoch that has started. */
    private boolean started;
    private long ownId;
    private boolean needsAll;

    /** A connection that requests another member to connect to this one, and when it was opened. */
    private record Knock(Endpoint endpoint, long ns) { }

    /** Creates the links of a process; see {@link dev.starling.distributed.GroupConfig#maxMesh}. */
    Links(Transport transport, int maxMesh) {
        this.transport = transport;
        this.maxMesh = maxMesh;
    }

    /** Returns the connection to a member, or {@code null}. */
    @Nullable Endpoint get(long id) {
        return endpoints.get(id);
    }

    /** Returns the connection to a member; opens one if there is none, and returns {@code null} until it exists. */
    @Nullable Endpoint use(long id) {
        Endpoint known = endpoints.get(id);
        if (known != null || needed.containsKey(id)) {
            return known;
        }
        Member member = view.byId(id);
        if (member != null && id != ownId) {
            needed.put(id, member);
            demandedNs.put(id, transport.nanoTime());
            open(member);
        }
        return endpoints.get(id);
    }

    /** Opens connections to all members, in this epoch and the following ones. */
    void useAll() {
        needsAll = true;
        view.members().forEach(member -> use(member.id()));
        demandedNs.clear();
    }

    /** Returns these links as the collectives of some members see them, of which this process has a rank. */
    Fabric fabric(long number, View members, int rank) {
        return new Fabric(number, members, rank, members.world() <= maxMesh, Partners.of(members, rank, maxMesh),
                this::use, transport);
    }

    private void open(Member member) {
        if (member.id() < ownId) {
            connect(member);
        } else {
            knock(member);
        }
    }

    private void knock(Member member) {
        Knock last = knocks.get(member.id());
        long now = transport.nanoTime();
        if (last != null && (last.endpoint.state() == Endpoint.State.CONNECTING || now - last.ns < KNOCK_NS)) {
            return;
        }
        stopKnocking(member.id());
        knocks.put(member.id(), new Knock(transport.connect(member.address(),
                ByteBuffer.allocate(KNOCK).putLong(ownId).array()), now));
    }

    private void stopKnocking(long id) {
        Knock last = knocks.remove(id);
        if (last != null) {
            last.endpoint.close();
        }
    }

    /** Returns the member at the other end of a connection, or {@code null} if it is not in the present epoch. */
    @Nullable Member member(Endpoint endpoint) {
        return endpoint.attachment() instanceof Long id ? view.byId(id) : null;
    }

    /** Starts to connect to the members of a new epoch, and closes the connections to all other processes. */
    void onNewView(View next, long id) {
        if (id != ownId) {
            // After a rejoin this process has another id, which the others do not associate with old connections.
            view.members().forEach(member -> drop(member.id()));
            started = false;
        }
        view = next;
        viewNs = transport.nanoTime();
        ownId = id;
        departures.clear();
        reportedLosses.clear();
        lost.clear();
        demandedNs.clear();
        List.copyOf(knocks.keySet()).forEach(this::stopKnocking);
        unneeded.clear();
        needed.clear();
        int rank = Objects.requireNonNull(next.byId(id)).rank();
        String host = next.members().get(rank).host();
        transport.pollingThreads((int) next.members().stream().filter(each -> each.host().equals(host)).count());
        for (int partner : Partners.of(next, rank, needsAll ? Integer.MAX_VALUE : maxMesh)) {
            Member member = next.members().get(partner);
            needed.put(member.id(), member);
        }
        for (Member member : next.members()) {
            Endpoint known = endpoints.get(member.id());
            if (known != null && !known.isConnected() && known.state() != Endpoint.State.CONNECTING) {
                drop(member.id());
                known = null;
            }
            if (known == null && member.id() < id && needed.containsKey(member.id())) {
                connect(member);
            }
        }
        for (Long former : List.copyOf(endpoints.keySet())) {
            if (next.byId(former) == null) {
                drop(former);
            }
        }
    }

    /**
     * Begins to close connections that only former epochs needed, because this epoch has started. A peer that did not
     * receive the goodbye would take the connection for a good one if a later epoch needs it; therefore a connection
     * that is not established yet is not closed either, for the peer may have accepted it.
     */
    void onStarted() {
        started = true;
        leavers.removeIf(id -> view.byId(id) == null);
        for (Long id : endpoints.keySet()) {
            if (!needed.containsKey(id)) {
                unneeded.add(id);
            }
        }
        closeUnneeded();
    }

    private void closeUnneeded() {
        for (Long id : List.copyOf(unneeded)) {
            Endpoint endpoint = needed.containsKey(id) ? null : endpoints.get(id);
            if (endpoint == null) {
                unneeded.remove(id);
            } else if (endpoint.state() != Endpoint.State.CONNECTING && endpoint.closeIfRoom()) {
                unneeded.remove(id);
                endpoint.attach(null);
                endpoints.remove(id);
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
            need(id);
            stopKnocking(id);
        } else {
            if (endpoint.greeting().length == KNOCK) {
                onKnock(ByteBuffer.wrap(endpoint.greeting()).getLong());
            }
            endpoint.close();
        }
    }

    private void onKnock(long id) {
        need(id);
        // A member that is not in this view yet tries again.
        Member member = view.byId(id);
        if (id < ownId && member != null && endpoints.get(id) == null) {
            connect(member);
        }
    }

    private void need(long id) {
        Member member = view.byId(id);
        if (member != null && id != ownId) {
            needed.put(id, member);
        }
    }

    /** Returns whether all needed members are connected; retries connections that were never established. */
    boolean areReached() {
        boolean all = true;
        for (Member member : needed.values()) {
            if (!isReached(member)) {
                all = false;
                retry(member);
            }
        }
        return all;
    }

    private void retry(Member member) {
        Endpoint endpoint = endpoints.get(member.id());
        if (endpoint != null && endpoint.state() == Endpoint.State.LOST && member.id() < ownId
                && !lost.contains(member.id())) {
            endpoint.close();
            connect(member);
        } else if (endpoint == null && needsAll && member.id() > ownId) {
            // A member that has just joined may not know that this one needs all.
            knock(member);
        }
    }

    /**
     * Returns a report on each member that this process needs and has not reached within two liveness timeouts since it
     * learned of the epoch. A report is returned once, and only by a process that has been in an epoch before: a
     * process that is new may itself be the one that cannot be reached.
     */
    List<Control.Suspect> overdue() {
        long waitedNs = transport.nanoTime() - viewNs;
        if (!started || waitedNs <= 2 * transport.config().livenessTimeout().toNanos()) {
            return List.of();
        }
        List<Control.Suspect> reports = new ArrayList<>();
        for (Member member : needed.values()) {
            if (!isReached(member) && lost.add(member.id())) {
                Endpoint endpoint = endpoints.get(member.id());
                reports.add(new Control.Suspect(view.epoch(), member.id(), waitedNs, "no connection within "
                        + Duration.ofNanos(waitedNs).toMillis() + " ms" + describe(endpoint)));
            }
        }
        return reports;
    }

    private static String describe(@Nullable Endpoint endpoint) {
        return endpoint == null || endpoint.reason().isEmpty() ? "" : " (" + endpoint.reason() + ')';
    }

    /**
     * Continues to close unneeded connections, and to open those that were used before they existed.
     *
     * @return the loss to report: of a member that was not reached within the liveness timeout; otherwise {@code null}
     */
    @Nullable PeerLostException maintain() {
        if (!unneeded.isEmpty()) {
            closeUnneeded();
        }
        if (demandedNs.isEmpty()) {
            return null;
        }
        long timeoutNs = transport.config().livenessTimeout().toNanos();
        for (Long id : List.copyOf(demandedNs.keySet())) {
            Member member = needed.get(id);
            long waitedNs = transport.nanoTime() - demandedNs.getOrDefault(id, 0L);
            if (member == null || isReached(member)) {
                demandedNs.remove(id);
            } else if (waitedNs > timeoutNs) {
                demandedNs.remove(id);
                lost.add(id);
                return new PeerLostException(member.rank(), Duration.ofNanos(waitedNs),
                        "it did not connect when a message was to be sent to it");
            } else if (member.id() > ownId) {
                knock(member);
            } else {
                retry(member);
            }
        }
        return null;
    }

    /** Returns the number of members that are connected, this one included. */
    int reachedCount() {
        return (int) view.members().stream().filter(this::isReached).count();
    }

    /** Returns whether no member has been lost or has left in this epoch. */
    boolean isWhole() {
        return lost.isEmpty();
    }

    /** Returns whether a member is connected, or is this process. */
    boolean isReached(Member member) {
        Endpoint endpoint = endpoints.get(member.id());
        return member.id() == ownId || endpoint != null && endpoint.isConnected();
    }

    /**
     * Returns whether more than half of the members are connected, this one included, or half of them with rank 0. Of a
     * large group, the members that this one needs count.
     */
    boolean areMostReached() {
        if (isLarge()) {
            return 2 * needed.values().stream().filter(this::isReached).count() >= needed.size();
        }
        int reached = reachedCount();
        return 2 * reached > view.world() || 2 * reached == view.world() && isReached(view.members().getFirst());
    }

    /**
     * Returns whether more than half of an epoch's members that have not left have been heard of within a time, this
     * one included, or half of them with the first of them.
     */
    boolean haveMostBeenHeard(View of, long withinNs) {
        int members = 0;
        int heard = 0;
        boolean first = false;
        for (Member member : of.members()) {
            // Members of a later epoch close their connections to one that is not in it, but do not leave.
            if (!leavers.contains(member.id())) {
                Endpoint endpoint = endpoints.get(member.id());
                boolean here = member.id() == ownId || endpoint != null && endpoint.isConnected()
                        && transport.nanoTime() - endpoint.lastReceivedNs() < withinNs;
                first |= here && members == 0;
                heard += here ? 1 : 0;
                members++;
            }
        }
        return 2 * heard > members || 2 * heard == members && first;
    }

    /** Returns whether members are not all connected to each other. */
    boolean isLarge() {
        return view.world() > maxMesh && !needsAll;
    }

    /** Returns whether a member is connected, or may be reached by others, because this process needs no connection. */
    boolean mayBeReached(Member member) {
        return isReached(member) || isLarge() && endpoints.get(member.id()) == null && !lost.contains(member.id());
    }

    /** Describes the members that are not connected, with the reasons. */
    String describeUnreached() {
        StringBuilder text = new StringBuilder();
        for (Member member : needed.values()) {
            if (!isReached(member)) {
                text.append(text.isEmpty() ? "no connection yet to rank " : ", ").append(member.rank())
                        .append(describe(endpoints.get(member.id())));
            }
        }
        return text.isEmpty() ? "this process is connected to all that it needs, and the coordinator waits for other"
                + " members" : text.toString();
    }

    /**
     * Handles the end of a connection.
     *
     * @param started whether this epoch has started
     * @return the loss to report; {@code null} if the peer is not in this epoch, or has left with a goodbye: it may be
     *     done, and all its messages have arrived
     */
    @Nullable PeerLostException onLost(Endpoint endpoint, boolean started) {
        Member member = member(endpoint);
        if (member == null || endpoints.get(member.id()) != endpoint) {
            return null;
        }
        boolean closedAsUnneeded = !started && endpoint.receivedGoodbye() && view.world() > maxMesh;
        if (closedAsUnneeded || !needed.containsKey(member.id())) {
            // The peer has closed a connection that its last epoch did not need. If it has left the group, an epoch of
            // other members follows.
            drop(member.id());
            if (closedAsUnneeded && needed.containsKey(member.id()) && member.id() < ownId) {
                connect(member);
            }
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

    /** A member announces that it leaves the group. */
    void onLeave(Endpoint from) {
        if (from.attachment() instanceof Long id) {
            leavers.add(id);
        }
    }

    /** Returns whether all other members have left the group. */
    boolean haveOthersLeft() {
        return view.members().stream().allMatch(each -> each.id() == ownId || leavers.contains(each.id()));
    }

    /** Returns whether a member has left in this epoch. */
    boolean hasDepartures() {
        return !departures.isEmpty();
    }

    /** Returns the loss to report if a member that has left is needed; {@code null} if it has not left. */
    @Nullable PeerLostException departure(int rank) {
        return departures.get(rank);
    }

    /** Returns the loss of a member of the last view that the next one lacks. */
    PeerLostException absence(long id) {
        int rank = Objects.requireNonNull(view.byId(id)).rank();
        PeerLostException left = departures.get(rank);
        Endpoint endpoint = endpoints.get(id);
        return left != null ? left : new PeerLostException(rank, Duration.ofNanos(endpoint == null ? 0
                : transport.nanoTime() - endpoint.lastReceivedNs()), "the group continues without it");
    }

    /** Returns the loss because of which a member left, or {@code null} if it has reported none. */
    @Nullable PeerLostException reportedLoss(long id) {
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
