package dev.starling.distributed.coordinator;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Inbox;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.LongPredicate;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.Agent;
import org.jspecify.annotations.Nullable;

/**
 * Decides which processes are members of a group: it admits processes, assigns ranks, and decides what happens after a
 * loss. It sees no training data. The caller drives it with {@link #doWork}, in a launcher, beside rank 0, or in a
 * process of its own; see {@link CoordinatorThread}. If the coordinator is lost, the present epoch continues. If the
 * group re-forms and has a {@link dev.starling.distributed.Quorum}, a member then takes the place of the coordinator.
 */
public final class Coordinator implements Agent, AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** Interval at which members learn which processes are missing before the first epoch. */
    private static final long NOTICE_NS = 5_000_000_000L;

    private final Transport transport;
    private final CoordinatorConfig config;
    private final long settleNs;
    private final long createdNs;
    /** Processes that have joined and were not excluded. */
    private final List<Participant> participants = new ArrayList<>();
    private final Inbox inbox = new Inbox();
    final Farewells dismissed = new Farewells();
    private final Suspicions suspicions = new Suspicions();
    private final Founders founders;
    private final Electorate electorate;
    private View view = new View(0, List.of());
    private long ids;
    private boolean started;
    private boolean everStarted;
    private boolean ended;
    /** Whether the view is out of date, so that a new epoch must be proposed. */
    private boolean stale;
    private long upToDateNs;
    private long viewNs;
    /** When members last learned which processes are missing. */
    private long noticeNs;
    /** What this coordinator waits for if it takes the place of another one; {@code null} if it has decided. */
    private @Nullable Takeover takeover;
    /** The address of the coordinator that the group has now; {@code null} if that is this one. */
    private Control.@Nullable Moved moved;
    /** The vote without a quorum that participants have been notified of; {@code null} if there is a quorum. */
    private Electorate.@Nullable Vote reported;

    private Coordinator(Transport transport, CoordinatorConfig config) {
        this.transport = transport;
        this.config = config;
        settleNs = transport.config().livenessTimeout().toNanos() / 2;
        createdNs = transport.nanoTime();
        noticeNs = createdNs;
        // Others than those of an earlier coordinator, by which members that return to this one know each other.
        ids = (createdNs >> 20 & 0xffff) << Short.SIZE;
        founders = new Founders(config.world());
        electorate = new Electorate(config.quorum());
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
        return over(transport, CoordinatorConfig.of(world, onLoss).minMembers(minMembers).joinTimeout(joinTimeout));
    }

    /** Creates a coordinator on a transport of its own. */
    public static Coordinator open(TransportConfig transport, CoordinatorConfig config) {
        return over(Transport.open(transport), config);
    }

    /** As {@link #open(TransportConfig, CoordinatorConfig)}, with defaults for the rest of the rules. */
    public static Coordinator open(TransportConfig transport, int world, OnLoss onLoss, int minMembers,
            Duration joinTimeout) {
        return open(transport, CoordinatorConfig.of(world, onLoss).minMembers(minMembers).joinTimeout(joinTimeout));
    }

    /** Creates the coordinator that takes the place of a lost one; see {@link SuccessorOpener}. */
    static Coordinator succeed(Transport transport, Control.Rules rules, View started, View seen, int rank,
            LongPredicate isReached) {
        Coordinator successor = over(transport, CoordinatorConfig.of(rules));
        successor.learn(started, true);
        successor.learn(seen, false);
        successor.everStarted = true;
        successor.viewNs = successor.createdNs;
        // Of its own, so that no process gets the id of one that the former coordinator or another successor admitted.
        successor.ids = (seen.epoch() + 1 << Integer.SIZE) + ((long) rank << Short.SIZE);
        successor.takeover = new Takeover(isReached, successor.createdNs + 2 * successor.settleNs);
        return successor;
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

    /** Returns whether no work is left: all members have left or are lost, or know that the group has ended. */
    public boolean isDone() {
        return dismissed.isEmpty() && (everStarted && participants.isEmpty()
                || ended && participants.stream().allMatch(p -> Farewells.isDelivered(p.outbox)));
    }

    @Override
    public int doWork() {
        int work = transport.doWork() + dismissed.doWork();
        for (int i = 0; i < participants.size(); i++) {
            work += participants.get(i).outbox.doWork();
        }
        long now = transport.nanoTime();
        if (!everStarted && !ended && (stale || participants.isEmpty()) && now - noticeNs > NOTICE_NS) {
            reportMissing(now);
        }
        if (!everStarted && !ended && now - createdNs > config.joinTimeout().toNanos()) {
            String cause = stale || view.members().isEmpty() ? "only " + founders.describeMissing(participants)
                    + "; start the others, or ask for fewer" : Roster.describeUnready(view, participants);
            end("the group did not start within " + config.joinTimeout().toSeconds() + " s: " + cause);
        }
        if (suspicions.areOlderThan(settleNs, now)) {
            evictMostSuspected();
        }
        upToDateNs = stale ? upToDateNs : now;
        // In a large group an epoch costs much: losses and joins at about the same time share one.
        boolean hasty = !everStarted || view.world() <= GroupConfig.DEFAULT_MAX_MESH;
        if (stale && !ended && (hasty || now - upToDateNs > settleNs / 4)) {
            propose(now);
        }
        // Later, members report which of them they do not reach, but a process that joins does not; see Links.overdue.
        long patienceNs = 4 * settleNs + (everStarted ? 4 * settleNs : config.joinTimeout().toNanos());
        if (!started && reported == null && !view.members().isEmpty() && now - viewNs > patienceNs
                && !suspicions.areOlderThan(0, now)) {
            evictUnready(now);
        }
        return work;
    }

    @Override
    public String roleName() {
        return "starling-coordinator";
    }

    /**
     * Excludes the process that joined first of those with a preferred rank, as if its connection were lost. For
     * callers that know that it ended {@code agoNs} ago before the network reports it; one that joined since then is
     * its replacement, which stays. A process that has not joined before the first epoch is no longer waited for, if
     * the group re-forms. Call it between calls of {@link #doWork}.
     */
    void exclude(int preferredRank, String reason, long agoNs) {
        Optional<Participant> first = participants.stream().filter(p -> p.join.preferredRank() == preferredRank
                && transport.nanoTime() - p.joinedNs >= agoNs).min(Comparator.comparingLong(p -> p.id));
        if (first.isPresent()) {
            electorate.onEnded(first.get().id);
            evict(first.get(), reason, silentNs(first.get().outbox.endpoint()));
        } else if (!everStarted) {
            onFounderEnded(preferredRank, reason);
        } else {
            electorate.onProcessEnded(preferredRank, participants);
            stale |= reported != null;
        }
    }

    /** Reports the end of a process before the first epoch. A group that re-forms does not wait for it. */
    private void onFounderEnded(int preferredRank, String reason) {
        stale = true;
        if (participants.size() < config.world()) {
            founders.onEnded(preferredRank, reason, participants);
            reportMissing(transport.nanoTime());
        }
    }

    private void reportMissing(long now) {
        noticeNs = now;
        String missing = founders.describeMissing(participants);
        LOG.log(Level.INFO, "the group waits: {0}", missing);
        sendToAll(new Control.Waiting(missing));
    }

    /** Works until all members have left or the time has passed. For a thread that does nothing else. */
    public void run(Duration atMost) {
        transport.await(() -> {
            doWork();
            return isDone();
        }, atMost, "the members to leave");
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        Control message = inbox.read(from, buffer, offset, length);
        if (from.attachment() instanceof Participant participant) {
            onMessage(participant, message);
        } else if (message instanceof Control.Join join) {
            onJoin(from, join);
        } else if (message instanceof Control.Rejoin rejoin) {
            onRejoin(from, rejoin);
        } else if (message instanceof Control.Moved m && (!everStarted || reported != null || participants.isEmpty())) {
            // The group has another coordinator, so this one forms none of its own.
            moved = m;
            sendToAll(m);
        }
    }

    private void onMessage(Participant participant, @Nullable Control message) {
        switch (message) {
            case null -> { }
            case Control.Ready m -> {
                participant.ready = m.epoch();
                startIfReady();
            }
            case Control.Suspect m -> onSuspect(participant, m);
            case Control.Leave _ -> onLeave(participant);
            case Control.Withdraw _ -> stale |= remove(participant);
            case Control.Join _, Control.Waiting _, Control.NewView _, Control.Start _, Control.Lost _,
                    Control.Refused _, Control.NoQuorum _, Control.Rejoin _, Control.Successor _, Control.Moved _ -> { }
        }
    }

    private void onJoin(Endpoint from, Control.Join join) {
        Participant participant = new Participant(++ids, join, from);
        String refusal = ended ? "the group has ended" : Roster.refusal(config, everStarted, participants, join);
        Control answer = moved != null ? moved : refusal == null ? null : new Control.Refused(refusal);
        if (answer == null) {
            admit(participant);
        } else {
            dismiss(participant, ended ? join.preferredRank() : -1, answer);
        }
    }

    private void admit(Participant participant) {
        participant.outbox.endpoint().attach(participant);
        participant.joinedNs = transport.nanoTime();
        participants.add(participant);
        reported = null;
        founders.onJoined(participant.join.preferredRank());
        stale = true;
    }

    private boolean remove(Participant participant) {
        participant.outbox.endpoint().attach(null);
        return participants.remove(participant);
    }

    /** A member of a former epoch, which has lost its coordinator, follows this one. */
    private void onRejoin(Endpoint from, Control.Rejoin rejoin) {
        if (everStarted) {
            rejoin.newer().forEach(each -> learn(each, each.epoch() <= rejoin.started()));
        }
        if (ended || moved != null || !electorate.includes(rejoin.id())) {
            onJoin(from, rejoin.join());
            return;
        }
        participant(rejoin.id()).ifPresent(this::remove);
        Participant participant = new Participant(rejoin.id(), rejoin.join(), from);
        participant.continued = rejoin.whole() && rejoin.started() == rejoin.seen() ? rejoin.started() : 0;
        admit(participant);
    }

    private void learn(View other, boolean isStarted) {
        electorate.learn(other, isStarted);
        if (electorate.latest().epoch() > view.epoch()) {
            view = electorate.latest();
            started = false;
            suspicions.clear();
        }
    }

    /** Proposes a new epoch of all participants, or of as many as the group may have, if there are enough. */
    private void propose(long now) {
        int minMembers = config.minMembers();
        int expected = config.onLoss() == OnLoss.REFORM ? Math.max(founders.expected(), minMembers) : config.world();
        if (!everStarted && participants.size() < expected || participants.isEmpty()
                || moved != null || takeover != null && takeover.isIncomplete(view, participants, now)) {
            return;
        }
        takeover = null;
        stale = false;
        if (everStarted && !hasQuorum()) {
            return;
        }
        if (participants.size() < minMembers) {
            end("only " + participants.size() + " processes are left, and the group needs at least " + minMembers);
            return;
        }
        Roster.sort(participants, view, everStarted);
        int world = Math.min(participants.size(), config.maxMembers());
        // Copies, because a send may detect the loss of a process, which removes it.
        List<Participant> chosen = List.copyOf(participants.subList(0, world));
        List.copyOf(participants.subList(world, participants.size())).forEach(spare -> spare.outbox.send(
                new Control.Waiting("it has " + world + " members, as many as it may; this process waits as a spare")));
        if (Roster.continues(view, chosen)) {
            // The epoch continues: only spares have joined or left, or its members have found this coordinator.
            onStarted();
            return;
        }
        suspicions.clear();
        view = Roster.next(view, chosen);
        viewNs = now;
        started = false;
        chosen.forEach(p -> p.outbox.send(new Control.NewView(p.id, view, config.rules(), electorate.started())));
    }

    /** Returns whether enough members of the last epoch are present for another one; if not, notifies participants. */
    private boolean hasQuorum() {
        Electorate.Vote vote = electorate.vote(participants);
        if (!vote.suffices() && !vote.equals(reported)) {
            LOG.log(Level.WARNING, "no quorum: {0} of the {1} members of the last epoch are reachable; no epoch follows"
                    + " without more of them", vote.present(), vote.members());
            sendToAll(new Control.NoQuorum(vote.present(), vote.members()));
            participants.forEach(each -> each.notified = 0);
        }
        reported = vote.suffices() ? null : vote;
        return vote.suffices();
    }

    private int rank(long id) {
        return Roster.rank(view, id);
    }

    private void startIfReady() {
        if (!started && !stale && view.world() == participants.stream().filter(p -> p.ready == view.epoch()
                && view.byId(p.id) != null).count()) {
            onStarted();
        }
    }

    private void onStarted() {
        started = true;
        everStarted = true;
        electorate.onStarted(view);
        for (Participant each : List.copyOf(participants)) {
            if (view.byId(each.id) != null && each.notified != view.epoch()) {
                each.continued = view.epoch();
                each.notified = view.epoch();
                each.outbox.send(new Control.Start(view.epoch()));
            }
        }
    }

    private Optional<Participant> participant(long id) {
        return participants.stream().filter(p -> p.id == id).findFirst();
    }

    private void sendToAll(Control message) {
        List.copyOf(participants).forEach(p -> p.outbox.send(message));
    }

    private void onSuspect(Participant from, Control.Suspect suspicion) {
        if (suspicion.epoch() != view.epoch() || view.byId(suspicion.id()) == null) {
            return;
        }
        from.continued = 0;
        if (participant(suspicion.id()).isEmpty()) {
            // The suspected member has left, but the sender still needs it.
            if (config.onLoss() == OnLoss.REFORM) {
                stale = true;
            } else {
                endWithDeparture(suspicion.id(), suspicion.silentNs(), suspicion.reason());
            }
            return;
        }
        LOG.log(Level.INFO, "rank {0} cannot reach rank {1}: {2}", rank(from.id), rank(suspicion.id()),
                suspicion.reason());
        suspicions.add(from.id, rank(from.id), suspicion, transport.nanoTime());
    }

    /**
     * Resolves a partition among members that are all connected to the coordinator: excludes the member that most
     * others suspect; of equally suspected ones, a new one, and of those that of the highest rank.
     */
    private void evictMostSuspected() {
        Optional<Participant> worst = suspicions.worst(participants, electorate::isNew);
        Suspicions.Suspicion strongest = worst.map(each -> suspicions.of(each.id)).orElse(null);
        suspicions.resolve();
        if (strongest != null) {
            evict(worst.get(), "cut off from " + strongest.members() + " of the " + (view.world() - 1)
                    + " other members; " + strongest.reason(), transport.nanoTime() - strongest.heardNs());
        }
    }

    private void evictUnready(long now) {
        viewNs = now;
        Roster.unready(view, participants, electorate::isNew).forEach(each ->
                evict(each, "did not connect to the other members in time", silentNs(each.outbox.endpoint())));
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
        dismiss(participant, -1, new Control.Refused("rank " + rank + " was excluded: " + reason));
        if (config.onLoss() == OnLoss.END && everStarted) {
            endWithLoss(rank, silentNs, reason);
            return;
        }
        stale = true;
        if (!everStarted) {
            onFounderEnded(participant.join.preferredRank(), reason);
        }
    }

    private void dismiss(Participant participant, int lateRank, Control message) {
        dismissed.add(participant.outbox, lateRank);
        participant.outbox.send(message);
    }

    private void endWithLoss(int rank, long silentNs, String reason) {
        ended = true;
        sendToAll(dismissed.loss(view, new LossReport(rank, silentNs, reason)));
    }

    private void onLeave(Participant participant) {
        remove(participant);
        electorate.onEnded(participant.id);
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
        Optional<Participant> lost = participant(cause.id());
        if (lost.isPresent()) {
            evict(lost.get(), cause.reason(), causeNs);
        } else {
            endWithLoss(rank(cause.id()), causeNs, cause.reason());
        }
    }

    void end(String reason) {
        ended = true;
        sendToAll(new Control.Refused(reason));
    }

    @Override
    public void onClose() {
        close();
    }

    @Override
    public void close() {
        transport.close();
    }
}
