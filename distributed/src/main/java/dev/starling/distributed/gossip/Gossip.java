package dev.starling.distributed.gossip;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.gossip.GossipMessage.Announcement;
import dev.starling.distributed.gossip.GossipMessage.Final;
import dev.starling.distributed.gossip.GossipMessage.Finished;
import dev.starling.distributed.gossip.GossipMessage.Initial;
import dev.starling.distributed.gossip.GossipMessage.Settings;
import dev.starling.distributed.gossip.GossipMessage.Update;
import dev.starling.distributed.gossip.GossipMessage.Weights;
import dev.starling.distributed.gossip.Peer.Due;
import dev.starling.distributed.gossip.Peer.Inbox;
import dev.starling.distributed.gossip.Peer.Outbox;
import dev.starling.distributed.gossip.Peer.Phase;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Strategies;
import dev.starling.errors.Durations;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.transport.AllocatedMemory;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Training without a server and without waiting: every worker takes steps on its own shard of the data, now and then
 * writes its weights into the memory of one peer, and mixes in weights that peers have written into its own. Weights
 * travel with a mass that is halved when they are sent and added up when they are mixed, so that the steps of all
 * workers have the same weight however often each one sends. (Kempe et al., 2003; Blot et al., 2016) At the end of the
 * last epoch, workers that have finished wait for the others, up to the group's timeout, and all take the mean of their
 * final weights, in which a worker on data of its own counts as its number of examples, and others count the same. A
 * parameter that is frozen in one worker is not changed there. Weights that are infinite or NaN are not mixed in.
 *
 * <p>All workers begin with the weights of rank 0, or of the next rank if that one is lost before any worker has
 * received them. The loss of a worker is logged, and no other worker waits for it. A worker that joins starts with the
 * weights, and at the place in the run, of the first worker that answers. A worker that has lost all others logs a
 * warning, trains alone, and asks to rejoin until it is let in; then it mixes its weights with theirs. Rank 0 is
 * measured and saved. Needs a group whose coordinator re-forms.
 */
public final class Gossip implements DistributionStrategy, Concludes {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** The channel of gossip's messages. */
    static final int CHANNEL = GossipMessage.CHANNEL;
    private static final double MIN_MASS = 1e-6;

    private final Membership group;
    private final int period;
    /** Number of examples of this worker's own data; 0 if all workers share the data. */
    private final long ownExamples;
    private final List<Peer> peers = new CopyOnWriteArrayList<>();
    private final PeerLiveness liveness;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private InitialWeights initial;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private WeightLayout layout;
    /** Removes the listener that calls {@link #addPeers}; {@code null} before the start and after the end. */
    private @Nullable Runnable removeListener;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private Staging staging;
    private double mass = 1;
    private long steps;
    /** Index of the peer that is considered first at the next publication. */
    int nextPeer;
    private long mixed;
    private long published;
    /** What ended the run, or {@code null}. */
    private volatile @Nullable RunEndedException failure;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private RunSettings settings;
    private volatile boolean finishing;
    /** Whether most workers have finished together with this one, so that they do not continue without it. */
    private boolean hasFinishedWithMost;

    private Gossip(Group group, int period, long ownExamples) {
        if (period < 1) {
            throw TensorException.argument("gossip", "period must be >= 1 step, got " + period, "set 1 or more");
        }
        this.group = Membership.of(group);
        this.period = period;
        this.ownExamples = ownExamples;
        liveness = new PeerLiveness(this.group, peers);
    }

    /** Creates a strategy that publishes after every fourth step. */
    public static Gossip of(Group group) {
        return of(group, 4);
    }

    /**
     * Creates a strategy.
     *
     * @param group remains owned by the caller
     * @param period number of steps between publications, at least 1
     */
    public static Gossip of(Group group, int period) {
        return new Gossip(group, period, 0);
    }

    /**
     * Creates a strategy as {@link #of(Group, int)} does, for workers that each train on all rows of a data set of
     * their own.
     *
     * @param examples size of this worker's data set: what its final weights count for in the mean
     */
    public static Gossip onOwnData(Group group, int period, long examples) {
        if (examples < 1) {
            throw TensorException.argument("gossip", "a worker must have 1 example or more, got " + examples,
                    "give each worker some");
        }
        return new Gossip(group, period, examples);
    }

    @Override
    public int rank() {
        return group.rank();
    }

    /** Rank 0 saves, unless it is cut off from so many others that these may continue without it. */
    @Override
    public boolean savesCheckpoints() {
        return rank() == 0 && (hasFinishedWithMost || group.hasQuorum());
    }

    @Override
    public int world() {
        return group.world();
    }

    @Override
    public Share share() {
        Share[] share = {new Share.Own()};
        if (ownExamples == 0) {
            // Otherwise the members may change between both calls.
            group.locked(() -> share[0] = Share.shard(rank(), world()));
        }
        return share[0];
    }

    /** Returns how many times weights of a peer were mixed in. */
    public long mixed() {
        return mixed;
    }

    /** Returns how many times this worker's weights were written into a peer's memory. */
    public long published() {
        return published;
    }

    /** Returns the number of other workers that this one reaches. Any thread may call this. */
    public int peers() {
        return liveness.reachable();
    }

    /**
     * Returns whether this worker has lost all others before they finished: it trains alone, and its steps count for
     * the others only if it rejoins. Any thread may call this.
     */
    public boolean isCutOff() {
        return liveness.isCutOff();
    }

    @Override
    public void start(TrainingState state) {
        // What an earlier run has left does not count in this one.
        close();
        mass = 1;
        finishing = false;
        hasFinishedWithMost = false;
        failure = null;
        int chars = group.transport().maxMessageLength() / 4;
        layout = new WeightLayout(state, chars);
        Strategies.begin(group, "gossip");
        group.connectToAll();
        // Peers may mix at different intervals.
        settings = state.settings().with("strategy", "gossip")
                .with("data of each worker's own", ownExamples > 0).abridged(chars);
        AllocatedMemory allocated = group.transport().allocate(layout.bytes());
        group.locked(() -> {
            liveness.begin();
            staging = new Staging(group.transport().register(allocated), layout);
            initial = new InitialWeights(group, state, peers, liveness);
            removeListener = group.onChange(this::addPeers);
            group.channel(CHANNEL, this::onMessage);
            addPeers();
        });
        addRegions();
        if (!initial.areKnown()) {
            awaitInitialWeights();
        }
    }

    private void awaitInitialWeights() {
        boolean decided = group.patience().await(time -> awaitLocked(() -> {
            initial.look();
            return initial.areKnown() || initial.haveArrived() || failure != null || group.isEnded();
        }, time), group.config().timeout(), () -> "the initial weights of rank 0");
        check();
        if (!decided && !initial.isFirstOfThoseStarted()) {
            throw new DistributedException("rank " + rank() + " waited " + Durations.text(group.config().timeout())
                    + " for initial weights; no peer has sent any");
        }
        if (!decided || initial.areKnown()) {
            LOG.log(Level.WARNING, "rank 0 was lost before any worker received its weights; all workers"
                    + " start with those of rank {0}", group.rank());
            initial.useOwn();
        }
        mixIn();
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        // Weights travel, gradients do not.
        return Step.LOCAL;
    }

    @Override
    public void afterStep() {
        check();
        group.doWork();
        liveness.maintain(steps);
        addRegions();
        mixIn();
        sendInitialWeights();
        if (++steps % period == 0) {
            publish();
        }
    }

    /**
     * Waits for the others' last steps, up to the group's timeout, and takes the mean of the final weights of all
     * workers. Updates that still arrive from workers that have not finished are not mixed in: they are worse than the
     * final weights.
     */
    @Override
    public void conclude() {
        group.locked(() -> {
            finishing = true;
            peers.forEach(peer -> peer.due.add(Due.FINISHED));
        });
        mixIn();
        await("take its last step", peer -> peer.phase == Phase.FINISHED && peer.outbox == Outbox.WRITABLE);
        for (Peer peer : peers) {
            // Without shared memory all peers are served one after the other, because there is one buffer to send from.
            await("receive its weights", each -> !staging.isBusy());
            if (peer.accepts(Phase.FINISHED, staging)) {
                write(peer, new Final(count()));
            }
        }
        await("send its last weights", peer -> peer.phase != Phase.FINISHED
                || peer.inbox == Inbox.FINAL && !peer.due.contains(Due.WEIGHTS) && !staging.isBusy());
        Strategies.started(layout, "conclude").average(count(), peers);
        // Of all members: those that this worker has lost are no peers any more, and may continue without it.
        hasFinishedWithMost = 2 * (1 + peers.stream().filter(peer -> peer.inbox == Inbox.FINAL).count())
                > group.view().world();
    }

    /** Returns what this worker's final weights count for in the mean. */
    private long count() {
        return Math.max(1, ownExamples);
    }

    /** Waits until all reachable peers fulfil a condition; logs a warning for those that do not in time. */
    private void await(String what, Predicate<Peer> condition) {
        group.patience().await(time -> awaitLocked(() -> {
            liveness.update();
            sendInitialWeights();
            return peers.stream().allMatch(p -> p.phase == Phase.ABSENT || condition.test(p)) || failure != null
                    || group.isEnded();
        }, time), group.config().timeout(), () -> "rank " + peers.stream().filter(p -> p.phase != Phase.ABSENT
                && !condition.test(p)).map(p -> String.valueOf(p.member.rank())).collect(Collectors.joining(", "))
                + " to " + what);
        check();
        for (Peer peer : peers) {
            if (peer.phase != Phase.ABSENT && !condition.test(peer)) {
                LOG.log(Level.WARNING, "rank {0} has finished and waited {1} for rank {2} to {3}; it ends without it",
                        group.rank(), Durations.text(group.config().timeout()), peer.member.rank(), what);
            }
        }
    }

    private void check() {
        if (failure != null) {
            if (failure instanceof SettingsMismatchException) {
                awaitComparison();
            }
            throw failure;
        }
        if (group.isEnded()) {
            throw Objects.requireNonNull(group.failure());
        }
    }

    /** Waits until all peers know of the difference; one that begins later would train without the others. */
    private void awaitComparison() {
        awaitLocked(() -> {
            liveness.update();
            peers.forEach(Peer::sendDue);
            return peers.stream().allMatch(peer -> peer.phase == Phase.ABSENT || peer.isCompared()) || group.isEnded();
        }, group.config().timeout());
    }

    /** Waits as the group does, and gives peers that join meanwhile their slots. */
    private boolean awaitLocked(BooleanSupplier condition, Duration atMost) {
        long begin = group.transport().nanoTime();
        boolean[] holds = new boolean[1];
        Duration left = atMost;
        do {
            addRegions();
            group.awaitLocked(() -> {
                holds[0] = condition.getAsBoolean();
                return holds[0] || peers.stream().anyMatch(Peer::needsRegion);
            }, left);
            left = atMost.minusNanos(group.transport().nanoTime() - begin);
        } while (!holds[0] && left.isPositive());
        return holds[0];
    }

    /**
     * Gives new peers their slots in this worker's memory. The caller does not hold the group's lock, and is not in a
     * wait of the group: heartbeats must go on while memory is allocated.
     */
    private void addRegions() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.needsRegion()) {
                AllocatedMemory allocated = group.transport().allocate(layout.bytes());
                group.locked(() -> peer.take(group.transport().register(allocated)));
            }
        }
    }

    /** Adds each new member, and updates the state of the others. Under the group's lock. */
    private void addPeers() {
        if (group.isEnded()) {
            return;
        }
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            Peer known = endpoint == null ? null : liveness.find(endpoint);
            if (known != null) {
                known.member = member;
            } else if (endpoint != null && endpoint.isConnected()) {
                Peer peer = new Peer(member, endpoint, layout, settings, initial::awaitedId);
                if (finishing) {
                    peer.due.add(Due.FINISHED);
                }
                peers.add(peer);
            }
        }
        liveness.update();
    }

    private void mixIn() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.inbox != Inbox.FRESH) {
                continue;
            }
            if (peer.isFinite(initial.areKnown())) {
                mixIn(peer);
            }
            group.locked(peer::release);
        }
    }

    private void mixIn(Peer peer) {
        if (peer.update instanceof Initial(Map<String, String> notes) && !initial.areKnown()) {
            layout.mix(peer.received, 0);
            initial.adopt(notes);
        } else if (peer.update instanceof Update(double more) && more > 0) {
            layout.mix(peer.received, mass / (mass + more));
            mass += more;
            mixed++;
        }
    }

    /** Sends initial weights to peers that wait for them, and messages that could not be sent before. */
    private void sendInitialWeights() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.accepts(Phase.WAITING, staging)) {
                write(peer, initial.of(peer));
            }
            if (!peer.due.isEmpty()) {
                group.locked(peer::sendDue);
            }
        }
    }

    private void publish() {
        if (mass < MIN_MASS) {
            return;
        }
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get((nextPeer + i) % peers.size());
            if (peer.accepts(Phase.TRAINING, staging)) {
                nextPeer = (nextPeer + i + 1) % peers.size();
                if (write(peer, new Update(mass / 2))) {
                    mass /= 2;
                    published++;
                }
                return;
            }
        }
    }

    /** Writes this worker's weights for a peer that accepts them; returns false if the link has no room. */
    private boolean write(Peer peer, Weights weights) {
        layout.write(peer.target(staging));
        boolean[] written = new boolean[1];
        group.locked(() -> written[0] = peer.write(weights, staging));
        return written[0];
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (liveness.find(from) == null) {
            addPeers();
        }
        Peer peer = liveness.find(from);
        if (peer == null) {
            return;
        }
        GossipMessage message;
        try {
            message = GossipMessage.CODEC.decode(buffer, offset, length);
        } catch (IOException e) {
            LOG.log(Level.WARNING, "ignored a message from rank {0}: {1}", peer.member.rank(), e.getMessage());
            return;
        }
        switch (message) {
            case Announcement announcement -> onAnnouncement(peer, announcement);
            case GossipMessage _ when !peer.announced -> { }
            case Settings other -> onSettings(peer, other.settings());
            case GossipMessage.Credit _ -> peer.onCredit();
            case Weights weights -> onWeights(peer, weights);
            case Finished _ -> peer.become(Phase.FINISHED);
        }
    }

    /** Compares the settings of a peer whose checksum differs. No weights travel between the two. */
    private void onSettings(Peer peer, RunSettings others) {
        // The peer's rank is then that of the present view, too.
        addPeers();
        SortedMap<Integer, RunSettings> both = new TreeMap<>(Map.of(group.rank(), settings));
        both.put(peer.member.rank(), others);
        try {
            RunSettings.requireSame(both, "rank");
        } catch (SettingsMismatchException e) {
            if (initial.isFounder(peer.member)) {
                failure = e;
            } else {
                LOG.log(Level.WARNING, "rank {0} exchanges no weights with rank {1}, which has joined: {2}",
                        group.rank(), peer.member.rank(), e.getMessage());
            }
        }
    }

    private void onAnnouncement(Peer peer, Announcement announcement) {
        if (!peer.onAnnouncement(announcement, peer.member.host().equals(group.self().host()))) {
            failure = new DistributedException("rank " + peer.member.rank() + " trains another model: "
                    + layout.difference(announcement.text()) + "; build the same model on all ranks");
        }
    }

    private void onWeights(Peer peer, Weights weights) {
        if (peer.inbox == Inbox.FRESH) {
            LOG.log(Level.WARNING, "ignored weights of rank {0}, which had no credit", peer.member.rank());
        } else if (!finishing) {
            peer.receive(weights);
        } else if (weights instanceof Final) {
            peer.update = weights;
            peer.inbox = Inbox.FINAL;
        } else {
            peer.release();
        }
    }

    /** Releases the slots; updates that have not been sent yet are dropped. */
    @Override
    public void close() {
        Runnable remove = removeListener;
        if (remove == null) {
            return;
        }
        group.locked(() -> {
            group.channel(CHANNEL, null);
            remove.run();
            removeListener = null;
            peers.forEach(Peer::close);
            peers.clear();
            liveness.update();
            staging.close();
        });
    }
}
