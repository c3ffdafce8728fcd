package dev.starling.distributed.gossip;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.group.Channels;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.state.RunNotes;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Completion;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import java.lang.System.Logger.Level;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableArrayBuffer;

/**
 * Training without a server and without waiting: every worker takes steps on its own shard of the data, now and then
 * writes its weights into the memory of one peer, and mixes in weights that peers have written into its own. Weights
 * travel with a mass that is halved when they are sent and added up when they are mixed, so that the steps of all
 * workers have the same weight however often each one sends. (Kempe et al., 2003; Blot et al., 2016) At the end of the
 * last epoch, workers that have finished wait for the others, up to the group's timeout, and all take the mean of their
 * final weights, in which each worker counts the same, whatever its number of rows. A parameter that is frozen in one
 * worker is not changed there. Weights that are infinite or NaN are not mixed in.
 *
 * <p>All workers begin with the weights of rank 0, or of the next rank if that one is lost before any worker has
 * received them. The loss of a worker is logged, and no other worker waits for it. A worker that joins starts with the
 * weights, and at the place in the run, of the first worker that answers. A worker that has lost all others logs a
 * warning, trains alone, and asks to rejoin until it is let in; then it mixes its weights with theirs. Rank 0 is
 * measured and saved. Needs a group whose coordinator re-forms.
 */
public final class Gossip implements DistributionStrategy, Concludes {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    /** The channel of gossip's messages. */
    static final int CHANNEL = Channels.FIRST_OF_STRATEGIES + 1;
    private static final int ANNOUNCE = 1;
    private static final int UPDATE = 2;
    private static final int CREDIT = 3;
    private static final int FINISHED = 4;
    private static final int FINAL = 5;
    private static final int NOTES_OFFSET = 16;
    private static final double MIN_MASS = 1e-6;

    private final Membership group;
    private final int period;
    private final boolean ownData;
    private final List<Peer> peers = new CopyOnWriteArrayList<>();
    private final PeerLiveness liveness;
    private final ExpandableArrayBuffer message = new ExpandableArrayBuffer();
    private TrainingState state;
    /**
     * The ids of the members at the start of the run, and the run's notes at that point: founders that start late begin
     * there.
     */
    private Set<Long> founders = Set.of();
    private Map<String, String> beginning;
    private WeightLayout layout;
    /** Removes the listener that calls {@link #addPeers}; {@code null} before the start and after the end. */
    private Runnable removeListener;
    private MemoryRegion staging;
    private Tensor[] staged;
    private volatile boolean stagingBusy;
    private double mass = 1;
    private boolean initialised;
    /** While this worker waits for weights: id of the member that it considers the first of all that it reaches. */
    private long firstId;
    private long steps;
    private int nextPeer;
    private long mixed;
    private long published;
    private volatile DistributedException failure;
    private volatile boolean finishing;

    private Gossip(Group group, int period, boolean ownData) {
        if (period < 1) {
            throw TensorException.argument("gossip", "period must be >= 1 step, got " + period, "set 1 or more");
        }
        this.group = Membership.of(group);
        this.period = period;
        this.ownData = ownData;
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
        return new Gossip(group, period, false);
    }

    /**
     * Creates a strategy as {@link #of(Group, int)} does, for workers that each train on all rows of a data set of
     * their own.
     */
    public static Gossip onOwnData(Group group, int period) {
        return new Gossip(group, period, true);
    }

    @Override
    public int rank() {
        return group.rank();
    }

    @Override
    public int world() {
        return group.world();
    }

    @Override
    public Share share() {
        return ownData ? new Share.Own() : Share.shard(rank(), world());
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
    public void start(TrainingState newState) {
        state = newState;
        beginning = state.notes();
        founders = group.view().members().stream().map(Member::id).collect(Collectors.toSet());
        layout = new WeightLayout(state);
        group.locked(() -> {
            // If another member was first before, some worker may have the weights of that one.
            initialised = group.isAlwaysFirst();
            firstId = liveness.lowestReachable();
            staging = group.transport().register(layout.bytes());
            staged = layout.over(staging.memory());
            removeListener = group.onChange(this::addPeers);
            group.channel(CHANNEL, this::onMessage);
            addPeers();
        });
        if (!initialised) {
            boolean decided = group.await(() -> {
                group.locked(this::findInitialWeights);
                return initialised || hasInitialWeights() || failure != null || group.isEnded();
            }, group.config().timeout());
            check();
            if (!decided && isFirst(p -> p.firstId == 0)) {
                // The others have yet to start.
                initialised = true;
            } else if (!decided) {
                throw new DistributedException("rank " + rank() + " waited " + group.config().timeout()
                        + " for initial weights; no peer has sent any");
            }
            if (initialised) {
                LOG.log(Level.WARNING, "rank 0 was lost before any worker received its weights; all workers"
                        + " start with those of rank {0}", group.rank());
                state.resume();
                beginning = state.notes();
            }
            mixIn();
        }
    }

    private boolean hasInitialWeights() {
        return peers.stream().anyMatch(p -> p.fresh && p.notes != null);
    }

    /**
     * Looks for initial weights; if no worker has any, this worker starts with its own if it is the first of all. Under
     * the lock.
     */
    private void findInitialWeights() {
        liveness.update();
        long now = liveness.lowestReachable();
        if (now != firstId) {
            firstId = now;
            peers.forEach(peer -> peer.announced = false);
        }
        peers.stream().filter(p -> !p.announced).forEach(this::sendPending);
        initialised = !hasInitialWeights() && isFirst(p -> false);
    }

    /** Returns whether all reachable peers, except those that match a predicate, consider this worker the first. */
    private boolean isFirst(Predicate<Peer> exempt) {
        return firstId == group.self().id()
                && peers.stream().allMatch(p -> p.absent || p.firstId == firstId || exempt.test(p));
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
            peers.forEach(peer -> peer.finishDue = true);
        });
        mixIn();
        await("take its last step", peer -> peer.finished && peer.writable);
        for (Peer peer : peers) {
            // Without shared memory all peers are served one after the other, because there is one buffer to send from.
            await("receive its weights", each -> !stagingBusy);
            if (!peer.absent && peer.finished && peer.writable) {
                write(peer, 0, FINAL, RunNotes.NONE);
            }
        }
        await("send its last weights", peer -> !peer.finished || peer.finalReceived && !peer.updateDue && !stagingBusy);
        layout.average(peers);
    }

    /** Waits until all reachable peers fulfil a condition; logs a warning for those that do not in time. */
    private void await(String what, Predicate<Peer> condition) {
        boolean[] all = new boolean[1];
        group.await(() -> {
            group.locked(() -> {
                liveness.update();
                sendInitialWeights();
                all[0] = peers.stream().allMatch(p -> p.absent || condition.test(p));
            });
            return all[0] || failure != null || group.isEnded();
        }, group.config().timeout());
        check();
        for (Peer peer : all[0] ? List.<Peer>of() : peers) {
            if (!peer.absent && !condition.test(peer)) {
                LOG.log(Level.WARNING, "rank {0} has finished and waited {1} for rank {2} to {3}; it ends without it",
                        group.rank(), group.config().timeout(), peer.member.rank(), what);
            }
        }
    }

    private void check() {
        if (failure != null) {
            throw failure;
        }
        if (group.isEnded()) {
            throw group.failure();
        }
    }

    /** Creates a slot for each new member, and updates the state of the others. Under the group's lock. */
    private void addPeers() {
        if (group.isEnded()) {
            return;
        }
        liveness.update();
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null && endpoint.isConnected() && liveness.find(endpoint) == null) {
                MemoryRegion inbox = group.transport().register(layout.bytes());
                Peer peer = new Peer(member, endpoint, inbox, layout.over(inbox.memory()));
                peer.finishDue = finishing;
                peers.add(peer);
                liveness.peerAdded();
                announce(peer);
            }
        }
    }

    private void mixIn() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (!peer.fresh) {
                continue;
            }
            boolean mixable = peer.isFinite(initialised);
            if (mixable && peer.notes != null && !initialised) {
                layout.mix(peer.received, 0);
                state.restore(RunNotes.decode(peer.notes));
                beginning = state.notes();
                initialised = true;
            } else if (mixable && peer.mass > 0) {
                double own = mass / (mass + peer.mass);
                layout.mix(peer.received, own);
                mass += peer.mass;
                mixed++;
            }
            peer.notes = null;
            group.locked(() -> {
                peer.fresh = false;
                peer.creditDue = true;
                sendPending(peer);
            });
        }
    }

    /** Sends initial weights to peers that wait for them, and messages that could not be sent before. */
    private void sendInitialWeights() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.waiting && peer.writable && !peer.absent) {
                write(peer, 0, UPDATE,
                        RunNotes.encode(founders.contains(peer.member.id()) ? beginning : state.notes()));
            }
            if (peer.creditDue || peer.updateDue || peer.finishDue || !peer.announced) {
                group.locked(() -> sendPending(peer));
            }
        }
    }

    private void publish() {
        if (mass < MIN_MASS) {
            return;
        }
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get((nextPeer + i) % peers.size());
            if (peer.writable && !peer.absent && !peer.finished && !peer.waiting
                    && (peer.mapped != null || !stagingBusy)) {
                nextPeer += i + 1;
                double sent = mass / 2;
                mass -= sent;
                write(peer, sent, UPDATE, RunNotes.NONE);
                published++;
                return;
            }
        }
    }

    private void write(Peer peer, double sent, int kind, byte[] notes) {
        if (peer.mapped == null && stagingBusy) {
            return;
        }
        layout.write(peer.mapped != null ? peer.mapped : staged);
        group.locked(() -> {
            peer.writable = false;
            peer.waiting &= notes.length == 0;
            peer.updateKind = kind;
            peer.updateMass = sent;
            peer.updateNotes = notes;
            if (peer.mapped != null) {
                peer.updateDue = true;
                sendPending(peer);
                return;
            }
            stagingBusy = true;
            Completion completion = arrived -> {
                stagingBusy = false;
                peer.updateDue = arrived;
                sendPending(peer);
            };
            if (peer.endpoint.put(staging, 0, peer.outbox, 0, layout.bytes(), completion) != Endpoint.OK) {
                stagingBusy = false;
                peer.writable = true;
                peer.waiting |= notes.length > 0;
                mass += sent;
            }
        });
    }

    private void announce(Peer peer) {
        long awaited = initialised || hasInitialWeights() ? SlotAnnouncement.NONE : firstId;
        SlotAnnouncement own = new SlotAnnouncement(awaited, peer.inbox.key().encode(), layout.text());
        peer.announced = peer.endpoint.send(message, 0, own.encode(message, header(ANNOUNCE))) == Endpoint.OK;
    }

    /** Sends the messages that are due to a peer, as far as there is room. Under the group's lock. */
    private void sendPending(Peer peer) {
        if (!peer.announced) {
            announce(peer);
        }
        if (peer.announced && peer.creditDue) {
            peer.creditDue = peer.endpoint.send(message, 0, header(CREDIT)) == Endpoint.BACK_PRESSURED;
        }
        if (peer.announced && peer.updateDue) {
            int length = header(peer.updateKind);
            message.putDouble(length, peer.updateMass, ORDER);
            message.putBytes(NOTES_OFFSET, peer.updateNotes);
            peer.updateDue = peer.endpoint.send(message, 0, NOTES_OFFSET + peer.updateNotes.length)
                    == Endpoint.BACK_PRESSURED;
        }
        if (peer.announced && peer.finishDue && !peer.updateDue) {
            peer.finishDue = peer.endpoint.send(message, 0, header(FINISHED)) == Endpoint.BACK_PRESSURED;
        }
    }

    private int header(int kind) {
        message.putInt(0, CHANNEL, Channels.ORDER);
        message.putInt(4, kind, ORDER);
        return 8;
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        Peer peer = liveness.find(from);
        if (peer == null) {
            addPeers();
            peer = liveness.find(from);
        }
        if (peer == null || length < 4) {
            return;
        }
        switch (buffer.getInt(offset, ORDER)) {
            case ANNOUNCE -> onAnnouncement(peer, buffer, offset + 4, length - 4);
            case UPDATE -> onUpdate(peer, buffer, offset + 4, length - 4);
            case FINAL -> peer.finalReceived = finishing;
            case FINISHED -> peer.finished = true;
            case CREDIT -> peer.writable = true;
            default -> LOG.log(Level.WARNING, "ignored a message of an unknown kind from rank {0}", peer.member.rank());
        }
    }

    private void onAnnouncement(Peer peer, DirectBuffer buffer, int offset, int length) {
        SlotAnnouncement announcement = SlotAnnouncement.decode(buffer, offset, length);
        if (announcement == null) {
            LOG.log(Level.WARNING, "ignored a malformed announcement from rank {0}", peer.member.rank());
            return;
        }
        peer.firstId = announcement.firstId();
        peer.waiting = peer.firstId != SlotAnnouncement.NONE;
        if (peer.outbox != null) {
            return; // The peer repeats its announcement.
        }
        if (!announcement.layout().equals(layout.text())) {
            failure = new DistributedException("rank " + peer.member.rank() + " trains another model: "
                    + layout.difference(announcement.layout()) + "; build the same model on all ranks");
            return;
        }
        boolean sameHost = peer.member.host().equals(group.self().host());
        peer.outbox = peer.endpoint.open(RegionKey.decode(announcement.key()), sameHost);
        peer.mapped = peer.outbox.memory() == null ? null : layout.over(peer.outbox.memory());
        peer.writable = true;
        // The peer may have started after this worker and have missed its announcement.
        announce(peer);
    }

    private void onUpdate(Peer peer, DirectBuffer buffer, int offset, int length) {
        double sent = length < 8 || length > RunNotes.MAX_BYTES ? Double.NaN : buffer.getDouble(offset, ORDER);
        if (!(sent >= 0 && sent < Double.POSITIVE_INFINITY) || peer.fresh) {
            LOG.log(Level.WARNING, "ignored a malformed update from rank {0}", peer.member.rank());
            return;
        }
        if (finishing) {
            peer.creditDue = true;
            sendPending(peer);
            return;
        }
        peer.mass = sent;
        peer.notes = length == 8 ? null : new byte[length - 8];
        if (peer.notes != null) {
            buffer.getBytes(offset + 8, peer.notes);
        }
        peer.fresh = true;
    }

    /** Releases the slots; updates that have not been sent yet are dropped. */
    @Override
    public void close() {
        if (removeListener == null) {
            return;
        }
        group.locked(() -> {
            group.channel(CHANNEL, null);
            removeListener.run();
            removeListener = null;
            peers.forEach(Peer::close);
            peers.clear();
            liveness.end();
            List.of(staged).forEach(Tensor::close);
            staging.close();
        });
    }
}
