package dev.starling.distributed.coordinator;

import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Channels;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Outbox;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;
import org.jspecify.annotations.Nullable;

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

    private final Transport transport;
    private final CoordinatorConfig config;
    private final long joinTimeoutNs;
    private final long settleNs;
    private final long createdNs;
    /** Processes that have joined and were not excluded. */
    private final List<Participant> participants = new ArrayList<>();
    /** Undelivered messages to processes that were refused or excluded. */
    private final List<Outbox> dismissed = new ArrayList<>();
    private final Suspicions suspicions = new Suspicions();
    private final Founders founders;
    private final Electorate electorate;
    private final Control.Rules rules;
    private View view = new View(0, List.of());
    private long ids;
    private boolean started;
    private boolean everStarted;
    private boolean ended;
    /** Whether the view is out of date, so that a new epoch must be proposed. */
    private boolean stale;
    private long viewNs;
    /** When members last learned which processes are missing. */
    private long noticeNs;
    /** The vote without a quorum that participants have been notified of; {@code null} if there is a quorum. */
    private Electorate.@Nullable Vote reported;

    private Coordinator(Transport transport, CoordinatorConfig config) {
        this.transport = transport;
        this.config = config;
        joinTimeoutNs = config.joinTimeout().toNanos();
        settleNs = transport.config().livenessTimeout().toNanos() / 2;
        createdNs = transport.nanoTime();
        noticeNs = createdNs;
        founders = new Founders(config.world());
        electorate = new Electorate(config.quorum());
        rules = new Control.Rules(config.world(), config.onLoss() == OnLoss.REFORM, config.minMembers(),
                config.maxMembers(), config.quorum(), joinTimeoutNs);
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

    /** Creates a coordinator on a transport, which it then owns. */
    public static Coordinator over(Transport transport, CoordinatorConfig config) {
        return new Coordinator(transport, config);
    }

    /** As {@link #over(Transport, CoordinatorConfig)}, with defaults for the rest of the rules. */
    public static Coordinator over(Transport transport, int world, OnLoss onLoss, int minMembers,
            Duration joinTimeout) {
        return over(transport, config(world, onLoss, minMembers, joinTimeout));
    }

    /** Creates a coordinator on a transport of its own. */
    public static Coordinator open(TransportConfig transport, CoordinatorConfig config) {
        return over(Transport.open(transport), config);
    }

    /** As {@link #open(TransportConfig, CoordinatorConfig)}, with defaults for the rest of the rules. */
    public static Coordinator open(TransportConfig transport, int world, OnLoss onLoss, int minMembers,
            Duration joinTimeout) {
        return open(transport, config(world, onLoss, minMembers, joinTimeout));
    }

    private static CoordinatorConfig config(int world, OnLoss onLoss, int minMembers, Duration joinTimeout) {
        return CoordinatorConfig.of(world, onLoss).minMembers(minMembers).joinTimeout(joinTimeout);
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

    /** Returns whether a member has reported that it cannot reach this one, and that is not resolved. */
    boolean isSuspected(long id) {
        return suspicions.of(id) != null;
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
        if (suspicions.areOlderThan(settleNs, now)) {
            evictMostSuspected();
        }
        if (stale && !ended) {
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
            electorate.onEnded(first.get().id);
            evict(first.get(), reason, silentNs(first.get().outbox.endpoint()));
        } else if (!everStarted) {
            onFounderEnded(preferredRank, reason);
        } else {
            electorate.onProcessEnded(preferredRank, participants);
        }
    }

    /** Reports the end of a process before the first epoch. A group that re-forms does not wait for it. */
    private void onFounderEnded(int preferredRank, String reason) {
        stale = true;
        boolean isReplaced = preferredRank >= 0
                && participants.stream().anyMatch(p -> p.join.preferredRank() == preferredRank);
        if (participants.size() < config.world()) {
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
                    Control.Refused _, Control.NoQuorum _ -> { }
        }
    }

    private void onJoin(Endpoint from, Control.Join join) {
        Participant participant = new Participant(++ids, join, from);
        String refusal = null;
        if (ended) {
            refusal = "the group has ended";
        } else if (config.onLoss() == OnLoss.END && (everStarted || participants.size() >= config.world())) {
            // A group that re-forms admits processes even when it is complete: a new process may replace a member whose
            // loss is not detected yet.
            refusal = "the group of " + config.world() + " is complete; only a group that re-forms admits new members";
        } else if (config.onLoss() == OnLoss.END && join.role() instanceof Role.Server server
                && participants.stream().anyMatch(p -> p.join.role().equals(server))) {
            refusal = "server " + server.number() + " has joined already; give each server a number of its own";
        }
        if (refusal != null) {
            refuse(participant, refusal);
            return;
        }
        from.attach(participant);
        participants.add(participant);
        reported = null;
        founders.onJoined(join.preferredRank());
        electorate.onJoined(participant);
        stale = true;
    }

    /** Proposes a new epoch of all participants, or of as many as the group may have, if there are enough. */
    private void propose(long now) {
        int minMembers = config.minMembers();
        int expected = config.onLoss() == OnLoss.REFORM ? Math.max(founders.expected(), minMembers) : config.world();
        if (!everStarted && participants.size() < expected || participants.isEmpty()) {
            return;
        }
        if (everStarted && !hasQuorum()) {
            return;
        }
        stale = false;
        if (participants.size() < minMembers) {
            end("only " + participants.size() + " processes are left, and the group needs at least " + minMembers);
            return;
        }
        // Members keep the order of their ranks; new members follow. The first epoch honours preferred ranks.
        participants.sort(everStarted ? Comparator.comparingLong(p -> p.id) : Comparator.<Participant>comparingInt(
                p -> p.join.preferredRank() < 0 ? Integer.MAX_VALUE : p.join.preferredRank())
                        .thenComparingLong(p -> p.id));
        if (everStarted) {
            participants.sort(Comparator.comparingInt(p -> rank(p.id)));
        }
        int world = Math.min(participants.size(), config.maxMembers());
        List<Participant> spares = List.copyOf(participants.subList(world, participants.size()));
        spares.forEach(each -> each.outbox.send(new Control.Waiting("it has " + world + " members, as many as it may;"
                + " this process waits as a spare")));
        if (started && view.world() == world && participants.subList(0, world).stream()
                .allMatch(each -> view.byId(each.id) != null)) {
            // Only spares have joined or left.
            return;
        }
        suspicions.clear();
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            Participant each = participants.get(rank);
            members.add(new Member(each.id, rank, each.join.address(), each.join.host(), each.join.role()));
        }
        view = new View(view.epoch() + 1, members);
        viewNs = now;
        started = false;
        // A copy, because a send may detect the loss of a member, which removes it.
        for (Participant each : List.copyOf(participants.subList(0, world))) {
            each.outbox.send(new Control.NewView(each.id, view, rules));
        }
    }

    /**
     * Returns whether enough members of the last epoch are present to begin another one; otherwise notifies the
     * participants, which stop.
     */
    private boolean hasQuorum() {
        Electorate.Vote vote = electorate.vote(participants);
        if (vote.suffices()) {
            reported = null;
        } else if (!vote.equals(reported)) {
            reported = vote;
            LOG.log(Level.WARNING, "no quorum: {0} of the {1} members of the last epoch are reachable; no epoch follows"
                    + " without more of them", vote.present(), vote.members());
            sendToAll(new Control.NoQuorum(vote.present(), vote.members()));
        }
        return vote.suffices();
    }

    /** Returns a member's rank; greater than all others if it is not in the present view. */
    private int rank(long id) {
        Member member = view.byId(id);
        return member == null ? Integer.MAX_VALUE : member.rank();
    }

    private void startIfReady() {
        if (!started && !stale && view.world() == participants.stream().filter(p -> p.ready == view.epoch()
                && view.byId(p.id) != null).count()) {
            started = true;
            everStarted = true;
            electorate.onStarted(view);
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
            if (config.onLoss() == OnLoss.REFORM) {
                stale = true;
            } else {
                endWithDeparture(suspicion.id(), suspicion.silentNs(), suspicion.reason());
            }
            return;
        }
        int rank = rank(from.id);
        LOG.log(Level.INFO, "rank {0} cannot reach rank {1}: {2}", rank, rank(suspicion.id()),
                suspicion.reason());
        suspicions.add(from.id, rank, suspicion, transport.nanoTime());
    }

    /**
     * Resolves a partition among members that are all connected to the coordinator: excludes the member that most
     * others suspect; of equally suspected ones, that of the highest rank.
     */
    private void evictMostSuspected() {
        Participant worst = null;
        Suspicions.Suspicion strongest = null;
        for (Participant each : participants) {
            Suspicions.Suspicion suspicion = suspicions.of(each.id);
            if (suspicion != null && (strongest == null || suspicion.members() >= strongest.members())) {
                strongest = suspicion;
                worst = each;
            }
        }
        suspicions.resolve();
        if (worst != null) {
            evict(worst, "cut off from " + strongest.members() + " of the " + (view.world() - 1)
                    + " other members; " + strongest.reason(), transport.nanoTime() - strongest.heardNs());
        }
    }

    private void evictUnready() {
        viewNs = transport.nanoTime();
        for (Participant each : List.copyOf(participants)) {
            if (each.ready != view.epoch() && view.byId(each.id) != null) {
                evict(each, "did not connect to the other members in time", silentNs(each.outbox.endpoint()));
            }
        }
    }

    private void onLost(Endpoint endpoint) {
        if (endpoint.attachment() instanceof Participant participant && participants.contains(participant)) {
            if (endpoint.receivedGoodbye()) {
                electorate.onEnded(participant.id);
            }
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
        if (config.onLoss() == OnLoss.END && everStarted) {
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
        electorate.onEnded(participant.id);
        participant.outbox.endpoint().attach(null);
        if (!everStarted) {
            onFounderEnded(participant.join.preferredRank(), "it has left");
        }
        // An epoch that has not started would wait for the member forever, and a spare waits for its place.
        if (!started || config.onLoss() == OnLoss.REFORM && (suspicions.of(participant.id) != null
                || participants.stream().anyMatch(p -> view.byId(p.id) == null))) {
            stale = true;
        } else if (config.onLoss() == OnLoss.END && suspicions.of(participant.id) != null && !ended) {
            // The member and those that suspect it have failed; other members may wait for any of them.
            endWithDeparture(participant.id, 0, "it has left");
        }
    }

    /**
     * Ends the group because a member has left that others need. If that member had reported a loss before, it left
     * because of that loss, which is the one to name.
     */
    private void endWithDeparture(long id, long silentNs, String reason) {
        Suspicions.Report cause = suspicions.cause(id);
        if (cause == null) {
            endWithLoss(rank(id), silentNs, reason);
            return;
        }
        long causeNs = transport.nanoTime() - cause.heardNs();
        Optional<Participant> lost = participants.stream().filter(p -> p.id == cause.id()).findFirst();
        if (lost.isPresent()) {
            evict(lost.get(), cause.reason(), causeNs);
        } else {
            endWithLoss(rank(cause.id()), causeNs, cause.reason());
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
