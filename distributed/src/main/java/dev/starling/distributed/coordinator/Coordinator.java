package dev.starling.distributed.coordinator;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Channels;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Outbox;
import dev.starling.tensor.TensorException;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;

/**
 * Decides which processes are members of a group: it admits processes, assigns ranks, and decides what happens after a
 * loss. It sees no training data. The caller drives it with {@link #doWork}, in a launcher, beside rank 0, or in a
 * process of its own; see {@link CoordinatorThread}. If the coordinator is lost, the present epoch continues, but no
 * other follows.
 */
public final class Coordinator implements Agent, AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** Interval at which members learn which processes are missing before the first epoch. */
    private static final long NOTICE_NS = 5_000_000_000L;

    /**
     * In a group with more members, the coordinator waits an eighth of the liveness timeout for further losses and
     * joins before it proposes an epoch: of several at the same time, each would cost an epoch of all members.
     */
    private static final int MAX_HASTY = GroupConfig.DEFAULT_MAX_MESH;

    private final Transport transport;
    private final int world;
    private final OnLoss onLoss;
    private final int minMembers;
    private final long joinTimeoutNs;
    private final long settleNs;
    private final long createdNs;
    /** Processes that have joined and were not excluded. */
    private final List<Participant> participants = new ArrayList<>();
    /** Undelivered messages to processes that were refused or excluded. */
    private final List<Outbox> dismissed = new ArrayList<>();
    private final Map<Long, Suspicion> suspicions = new HashMap<>();
    private final Founders founders;
    private View view = new View(0, List.of());
    private long ids;
    private boolean started;
    private boolean everStarted;
    private boolean ended;
    /** Whether the view is out of date, so that a new epoch must be proposed. */
    private boolean stale;
    /** When the view was last up to date. */
    private long changedNs;
    /** Time of the first suspicion of this epoch; 0 if there is none. */
    private long suspectedNs;
    private long viewNs;
    /** When members last learned which processes are missing. */
    private long noticeNs;

    private Coordinator(Transport transport, int world, OnLoss onLoss, int minMembers, Duration joinTimeout) {
        this.transport = transport;
        this.world = world;
        this.onLoss = onLoss;
        this.minMembers = minMembers;
        joinTimeoutNs = joinTimeout.toNanos();
        settleNs = transport.config().livenessTimeout().toNanos() / 2;
        createdNs = transport.nanoTime();
        noticeNs = createdNs;
        founders = new Founders(world);
        transport.onMessage(this::onMessage);
        transport.onConnection(new ConnectionHandler() {
            @Override
            public void onLost(Endpoint endpoint) {
                Coordinator.this.onLost(endpoint);
            }
        });
    }

    /** What the coordinator does after a loss. */
    public enum OnLoss {
        /** End the group: every member gets an exception that names the lost rank. */
        END,
        /** Form a new epoch of the remaining members; other processes may join it. */
        REFORM
    }

    /**
     * Creates a coordinator on a transport, which it then owns.
     *
     * @param world number of processes to wait for before the first epoch; a group that re-forms does not wait for one
     *     that has ended before
     * @param minMembers number of processes with which the group may continue after losses
     * @param joinTimeout how long the coordinator waits for the processes of the first epoch
     */
    public static Coordinator over(Transport transport, int world, OnLoss onLoss, int minMembers,
            Duration joinTimeout) {
        if (world < 1 || world > Control.MAX_MEMBERS || minMembers < 1 || minMembers > world) {
            throw TensorException.argument("coordinator", "1 <= minMembers <= world <= " + Control.MAX_MEMBERS
                    + " must hold, got minMembers " + minMembers + " and world " + world, "correct the arguments");
        }
        return new Coordinator(transport, world, onLoss, minMembers, joinTimeout);
    }

    /** Creates a coordinator on a transport of its own; see {@link #over}. */
    public static Coordinator open(TransportConfig config, int world, OnLoss onLoss, int minMembers,
            Duration joinTimeout) {
        return over(Transport.open(config), world, onLoss, minMembers, joinTimeout);
    }

    /** A process that has joined. */
    private static final class Participant {
        private final long id;
        private final Control.Join join;
        private final Outbox outbox;
        /** The last epoch in which it was connected to all members that it needs. */
        private long ready;

        Participant(long id, Control.Join join, Endpoint endpoint) {
            this.id = id;
            this.join = join;
            outbox = new Outbox(endpoint);
        }
    }

    /**
     * The reports of members that have lost the connection to one member.
     *
     * @param members number of reporting members
     * @param heardNs when the last of them received anything from it
     * @param reason from the first report
     */
    private record Suspicion(int members, long heardNs, String reason) {
        Suspicion and(Suspicion other) {
            return new Suspicion(members + other.members, Math.max(heardNs, other.heardNs), reason);
        }
    }

    /** Returns the address at which members reach the coordinator. */
    public String address() {
        return transport.address();
    }

    /** Returns the present view; it has no members before the first epoch. */
    public View view() {
        return view;
    }

    /** Returns the number of processes that have joined and were not excluded. */
    int joined() {
        return participants.size();
    }

    /**
     * Returns whether the coordinator has no more work: all members have left, or the group has ended and all members
     * have been notified.
     */
    public boolean isDone() {
        return dismissed.isEmpty() && (everStarted && participants.isEmpty()
                || ended && participants.stream().allMatch(p -> isDelivered(p.outbox)));
    }

    private static boolean isDelivered(Outbox outbox) {
        return outbox.isEmpty() || !outbox.endpoint().isConnected();
    }

    @Override
    public int doWork() {
        int work = transport.doWork();
        for (int i = 0; i < participants.size(); i++) {
            work += participants.get(i).outbox.doWork();
        }
        for (int i = dismissed.size() - 1; i >= 0; i--) {
            work += dismissed.get(i).doWork();
            if (isDelivered(dismissed.get(i))) {
                dismissed.remove(i);
            }
        }
        long now = transport.nanoTime();
        if (!everStarted && !ended && (stale || participants.isEmpty()) && now - noticeNs > NOTICE_NS) {
            reportMissing(now);
        }
        if (!everStarted && !ended && now - createdNs > joinTimeoutNs) {
            end("the group did not start within " + Duration.ofNanos(joinTimeoutNs).toSeconds() + " s: only "
                    + describeMissing() + "; start the others, or ask for fewer");
        }
        if (suspectedNs != 0 && now - suspectedNs > settleNs) {
            evictMostSuspected();
        }
        changedNs = stale ? changedNs : now;
        if (stale && !ended && (!everStarted || view.world() <= MAX_HASTY || now - changedNs > settleNs / 4)) {
            propose(now);
        }
        if (!started && !view.members().isEmpty() && now - viewNs > 4 * settleNs + joinTimeoutNs) {
            evictUnready();
        }
        return work;
    }

    @Override
    public String roleName() {
        return "starling-coordinator";
    }

    /**
     * Excludes the process that joined first of those with a preferred rank, as if its connection were lost. For
     * callers that know of its end before the network reports it. A process that has not joined before the first epoch
     * is no longer waited for, if the group re-forms. Call it between calls of {@link #doWork}.
     */
    void exclude(int preferredRank, String reason) {
        Optional<Participant> first = participants.stream().filter(p -> p.join.preferredRank() == preferredRank)
                .min(Comparator.comparingLong(p -> p.id));
        if (first.isPresent()) {
            evict(first.get(), reason, silentNs(first.get().outbox.endpoint()));
        } else if (!everStarted) {
            onFounderEnded(preferredRank, reason);
        }
    }

    /** Reports the end of a process before the first epoch. A group that re-forms does not wait for it. */
    private void onFounderEnded(int preferredRank, String reason) {
        stale = true;
        boolean isReplaced = preferredRank >= 0
                && participants.stream().anyMatch(p -> p.join.preferredRank() == preferredRank);
        if (participants.size() < world) {
            if (!isReplaced) {
                founders.onEnded(preferredRank, reason);
            }
            reportMissing(transport.nanoTime());
        }
    }

    private void reportMissing(long now) {
        noticeNs = now;
        String missing = describeMissing();
        LOG.log(Level.INFO, "the group waits: {0}", missing);
        sendToAll(new Control.Waiting(missing));
    }

    private String describeMissing() {
        return founders.describeMissing(participants.stream().map(p -> p.join.preferredRank())
                .collect(Collectors.toSet()), participants.size());
    }

    /** Works until all members have left or the time has passed. For a thread that does nothing else. */
    public void run(Duration atMost) {
        transport.await(() -> {
            doWork();
            return isDone();
        }, atMost, "the members to leave");
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < Channels.HEADER || buffer.getInt(offset, Channels.ORDER) != Channels.CONTROL) {
            return;
        }
        try {
            Control message = Control.CODEC.decode(buffer, offset + Channels.HEADER, length - Channels.HEADER);
            Participant participant = (Participant) from.attachment();
            if (message instanceof Control.Join join && participant == null) {
                onJoin(from, join);
            } else if (participant != null) {
                onMessage(participant, message);
            }
        } catch (IOException e) {
            LOG.log(Level.WARNING, "refused a malformed control message from {0}: {1}", from.address(),
                    e.getMessage());
        }
    }

    private void onMessage(Participant participant, Control message) {
        switch (message) {
            case Control.Ready m -> {
                participant.ready = m.epoch();
                startIfReady();
            }
            case Control.Suspect m -> onSuspect(participant, m);
            case Control.Leave m -> onLeave(participant);
            case Control.Join _, Control.Waiting _, Control.NewView _, Control.Start _, Control.Lost _,
                    Control.Refused _ -> { }
        }
    }

    private void onJoin(Endpoint from, Control.Join join) {
        Participant participant = new Participant(++ids, join, from);
        String refusal = null;
        if (ended) {
            refusal = "the group has ended";
        } else if (onLoss == OnLoss.END && (everStarted || participants.size() >= world)) {
            // A group that re-forms admits processes even when it is complete: a new process may replace a member whose
            // loss is not detected yet.
            refusal = "the group of " + world + " is complete; only a group that re-forms admits new members";
        } else if (onLoss == OnLoss.END && join.role() instanceof Role.Server server
                && participants.stream().anyMatch(p -> p.join.role().equals(server))) {
            refusal = "server " + server.number() + " has joined already; give each server a number of its own";
        }
        if (refusal != null) {
            refuse(participant, refusal);
            return;
        }
        from.attach(participant);
        participants.add(participant);
        founders.onJoined(join.preferredRank());
        stale = true;
    }

    /** Proposes a new epoch of all participants, if there are enough. */
    private void propose(long now) {
        int expected = onLoss == OnLoss.REFORM ? Math.max(founders.expected(), minMembers) : world;
        if (!everStarted && participants.size() < expected || participants.isEmpty()) {
            return;
        }
        stale = false;
        if (participants.size() < minMembers) {
            end("only " + participants.size() + " processes are left, and the group needs at least " + minMembers);
            return;
        }
        suspicions.clear();
        suspectedNs = 0;
        // Members keep the order of their ranks; new members follow. The first epoch honours preferred ranks.
        participants.sort(everStarted ? Comparator.comparingLong(p -> p.id) : Comparator.<Participant>comparingInt(
                p -> p.join.preferredRank() < 0 ? Integer.MAX_VALUE : p.join.preferredRank())
                        .thenComparingLong(p -> p.id));
        if (everStarted) {
            participants.sort(Comparator.comparingInt(p -> rank(p.id)));
        }
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < participants.size(); rank++) {
            Participant each = participants.get(rank);
            members.add(new Member(each.id, rank, each.join.address(), each.join.host(), each.join.role()));
        }
        view = new View(view.epoch() + 1, members);
        viewNs = now;
        started = false;
        // A copy, because a send may detect the loss of a member, which removes it.
        for (Participant each : List.copyOf(participants)) {
            each.outbox.send(new Control.NewView(each.id, view));
        }
    }

    /** Returns a member's rank; greater than all others if it is not in the present view. */
    private int rank(long id) {
        Member member = view.byId(id);
        return member == null ? Integer.MAX_VALUE : member.rank();
    }

    private void startIfReady() {
        if (!started && !stale && participants.size() == view.world()
                && participants.stream().allMatch(p -> p.ready == view.epoch())) {
            started = true;
            everStarted = true;
            sendToAll(new Control.Start(view.epoch()));
        }
    }

    private void sendToAll(Control message) {
        List.copyOf(participants).forEach(p -> p.outbox.send(message));
    }

    private void onSuspect(Participant from, Control.Suspect suspicion) {
        if (suspicion.epoch() != view.epoch() || view.byId(suspicion.id()) == null) {
            return;
        }
        if (participants.stream().noneMatch(p -> p.id == suspicion.id())) {
            // The suspected member has left, but the sender still needs it.
            if (onLoss == OnLoss.REFORM) {
                stale = true;
            } else {
                endWithLoss(rank(suspicion.id()), suspicion.silentNs(), suspicion.reason());
            }
            return;
        }
        int rank = rank(from.id);
        LOG.log(Level.INFO, "rank {0} cannot reach rank {1}: {2}", rank, rank(suspicion.id()),
                suspicion.reason());
        long now = transport.nanoTime();
        suspicions.merge(suspicion.id(), new Suspicion(1, now - suspicion.silentNs(), "rank " + rank + " reports: "
                + suspicion.reason()), Suspicion::and);
        if (suspectedNs == 0) {
            suspectedNs = now;
        }
    }

    /**
     * Resolves a partition among members that are all connected to the coordinator: excludes the member that most
     * others suspect; of equally suspected ones, that of the highest rank.
     */
    private void evictMostSuspected() {
        suspectedNs = 0;
        Participant worst = null;
        Suspicion strongest = null;
        for (Participant each : participants) {
            Suspicion suspicion = suspicions.get(each.id);
            if (suspicion != null && (strongest == null || suspicion.members >= strongest.members)) {
                strongest = suspicion;
                worst = each;
            }
        }
        suspicions.clear();
        if (worst != null) {
            evict(worst, "cut off from " + strongest.members + " of the " + (view.world() - 1) + " other members; "
                    + strongest.reason, transport.nanoTime() - strongest.heardNs);
        }
    }

    private void evictUnready() {
        viewNs = transport.nanoTime();
        for (Participant each : List.copyOf(participants)) {
            if (each.ready != view.epoch()) {
                evict(each, "did not connect to the other members in time", silentNs(each.outbox.endpoint()));
            }
        }
    }

    private void onLost(Endpoint endpoint) {
        if (endpoint.attachment() instanceof Participant participant && participants.contains(participant)) {
            evict(participant, endpoint.reason(), silentNs(endpoint));
        }
        // A process that joins again does so over a new connection.
        endpoint.close();
    }

    private long silentNs(Endpoint endpoint) {
        return transport.nanoTime() - endpoint.lastReceivedNs();
    }

    private void evict(Participant participant, String reason, long silentNs) {
        int rank = rank(participant.id);
        participants.remove(participant);
        refuse(participant, "rank " + rank + " was excluded: " + reason);
        if (onLoss == OnLoss.END && everStarted) {
            endWithLoss(rank, silentNs, reason);
            return;
        }
        stale = true;
        if (!everStarted) {
            onFounderEnded(participant.join.preferredRank(), reason);
        }
    }

    private void refuse(Participant participant, String reason) {
        dismissed.add(participant.outbox);
        participant.outbox.send(new Control.Refused(reason));
    }

    private void endWithLoss(int rank, long silentNs, String reason) {
        ended = true;
        sendToAll(new Control.Lost(view.epoch(), new LossReport(rank, silentNs, reason)));
    }

    private void onLeave(Participant participant) {
        participants.remove(participant);
        participant.outbox.endpoint().attach(null);
        if (!everStarted) {
            onFounderEnded(participant.join.preferredRank(), "it has left");
        }
        // An epoch that has not started would wait for the member forever.
        if (!started || onLoss == OnLoss.REFORM && suspicions.containsKey(participant.id)) {
            stale = true;
        } else if (onLoss == OnLoss.END && suspicions.containsKey(participant.id) && !ended) {
            // The member and those that suspect it have failed; other members may wait for any of them.
            endWithLoss(rank(participant.id), 0, "it has left");
        }
    }

    private void end(String reason) {
        ended = true;
        sendToAll(new Control.Refused(reason));
    }

    @Override
    public void onClose() {
        close();
    }

    /** Closes the transport. Members continue their present epoch without a coordinator. */
    @Override
    public void close() {
        transport.close();
    }
}
