package dev.starling.distributed.gossip;

import dev.starling.distributed.Channels;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.nn.data.Share;
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
 * writes its weights into the memory of one peer, and mixes in what peers have written into its own. Weights travel
 * with a mass that is halved when they are sent and added up when they are mixed, so that all workers' steps count
 * alike however often each is heard. (Kempe et al., 2003; Blot et al., 2016) At the end of the last epoch those who are
 * done wait for the others, up to the group's patience, and all take the mean of their last weights, as all of them
 * count the same then. A parameter that is frozen in one worker stays as it is there. Weights that are infinite or NaN
 * are not mixed in.
 *
 * <p>All begin with the weights of rank 0, or of whoever comes next if that one is lost before anybody had them. A
 * lost worker is logged, and no other waits for it; a newcomer starts with the weights, and at the place in the run, of
 * the first worker that answers. A worker that has lost all others logs a warning, trains on alone, and asks to be let
 * back in until it is; then it mixes its weights with theirs. Rank 0 is measured and saved. Needs a group whose
 * coordinator re-forms.
 */
public final class Gossip implements DistributionStrategy {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int OFFER = 1;
    private static final int NEWS = 2;
    private static final int CREDIT = 3;
    private static final int DONE = 4;
    private static final int LAST = 5;
    private static final int NOTES_AT = 16;
    private static final double MIN_MASS = 1e-6;

    private final Group group;
    private final int period;
    private final boolean ownData;
    private final List<Peer> peers = new CopyOnWriteArrayList<>();
    private final Contact contact;
    private final ExpandableArrayBuffer message = new ExpandableArrayBuffer();
    private TrainingState state;
    /** The members that the run began with, and where these begin, however far others are by then. */
    private Set<Long> founders = Set.of();
    private Map<String, String> beginning;
    private WeightLayout layout;
    /** Ends that {@link #meet} is told of changes; {@code null} before the start and after the end. */
    private Runnable unlisten;
    private MemoryRegion staging;
    private Tensor[] staged;
    private volatile boolean stagingBusy;
    private double mass = 1;
    private boolean seeded;
    /** Who this worker takes to be the first of all that it hears, as long as it waits for weights. */
    private long first;
    private long steps;
    private int turn;
    private long mixed;
    private long published;
    private volatile DistributedException failure;
    private volatile boolean concluding;

    private Gossip(Group group, int period, boolean ownData) {
        if (period < 1) {
            throw TensorException.argument("gossip", "period must be >= 1 step, got " + period, "give 1 or more");
        }
        this.group = group;
        this.period = period;
        this.ownData = ownData;
        contact = new Contact(group, peers);
    }

    /** Makes a strategy that publishes after every fourth step. */
    public static Gossip of(Group group) {
        return of(group, 4);
    }

    /**
     * Makes a strategy.
     *
     * @param group stays the caller's to close
     * @param period number of steps between publications, at least 1
     */
    public static Gossip of(Group group, int period) {
        return new Gossip(group, period, false);
    }

    /** As {@link #of(Group, int)}, for workers that train each on rows of its own, all of them. */
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

    /** Returns how many other workers this one is in touch with. Any thread may ask. */
    public int peers() {
        return contact.near();
    }

    /**
     * Tells whether this worker has lost all others before they were done: it trains alone, and what it learns counts
     * for the others only if it is let back in. Any thread may ask.
     */
    public boolean isCutOff() {
        return contact.isCutOff();
    }

    @Override
    public void start(TrainingState newState) {
        state = newState;
        beginning = state.notes();
        founders = group.view().members().stream().map(Member::id).collect(Collectors.toSet());
        layout = new WeightLayout(state);
        group.locked(() -> {
            // Where another was first, somebody may have the weights of that one.
            seeded = group.isAlwaysFirst();
            first = first();
            staging = group.transport().register(layout.bytes());
            staged = layout.over(staging.memory());
            unlisten = group.onChange(this::meet);
            group.channel(Channels.GOSSIP, this::take);
            meet();
        });
        if (!seeded) {
            boolean begins = group.await(() -> {
                group.locked(this::seek);
                return seeded || hasSeed() || failure != null || group.isEnded();
            }, group.config().timeout());
            check();
            if (!begins && isFirst(p -> p.first == 0)) {
                // The others have yet to begin.
                seeded = true;
            } else if (!begins) {
                throw new DistributedException("rank " + rank() + " waited " + group.config().timeout()
                        + " for weights to start with; no peer has sent any");
            }
            if (seeded) {
                LOG.log(Level.WARNING, "nobody has the weights of the rank 0 that is gone; all begin with those of"
                        + " rank {0}", group.rank());
                state.resume();
                beginning = state.notes();
            }
            mixIn();
        }
    }

    private boolean hasSeed() {
        return peers.stream().anyMatch(p -> p.arrived && p.notes != null);
    }

    /** Looks for weights to start with; if nobody has any, those of the first of all are the ones. Under the lock. */
    private void seek() {
        contact.look();
        long now = first();
        if (now != first) {
            first = now;
            peers.forEach(peer -> peer.offered = false);
        }
        peers.stream().filter(p -> !p.offered).forEach(this::pump);
        seeded = !hasSeed() && isFirst(p -> false);
    }

    /** Tells whether all take this worker for the first, but for others of a kind. */
    private boolean isFirst(Predicate<Peer> others) {
        return first == group.self().id() && peers.stream().allMatch(p -> p.gone || p.first == first || others.test(p));
    }

    /** Returns the number of the member of lowest rank that is heard here. */
    private long first() {
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null && endpoint.isConnected()) {
                return member.id();
            }
            if (member.id() == group.self().id()) {
                break;
            }
        }
        return group.self().id();
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        // Weights travel, gradients do not.
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        return true;
    }

    @Override
    public void afterStep() {
        check();
        group.doWork();
        contact.keep(steps);
        mixIn();
        serve();
        if (++steps % period == 0) {
            publish();
        }
    }

    /**
     * Waits for the others' last steps, up to the group's patience, and takes the mean of what all have come to. What
     * those publish meanwhile who still take steps is not mixed in: it is not as good yet.
     */
    @Override
    public void conclude() {
        group.locked(() -> {
            concluding = true;
            peers.forEach(peer -> peer.owesDone = true);
        });
        mixIn();
        await("take its last step", peer -> peer.done && peer.free);
        for (Peer peer : peers) {
            // Without shared memory one after the other: all are sent from the same place.
            await("take what it is sent", each -> !stagingBusy);
            if (!peer.gone && peer.done && peer.free) {
                write(peer, 0, LAST, Notes.NONE);
            }
        }
        await("send its last weights", peer -> !peer.done || peer.concluded && !peer.owesNews && !stagingBusy);
        layout.average(peers);
    }

    /** Waits until all peers that are not gone have done something; warns of those that have not in time. */
    private void await(String what, Predicate<Peer> done) {
        boolean[] all = new boolean[1];
        group.await(() -> {
            group.locked(() -> {
                contact.look();
                serve();
                all[0] = peers.stream().allMatch(p -> p.gone || done.test(p));
            });
            return all[0] || failure != null || group.isEnded();
        }, group.config().timeout());
        check();
        for (Peer peer : all[0] ? List.<Peer>of() : peers) {
            if (!peer.gone && !done.test(peer)) {
                LOG.log(Level.WARNING, "rank {0} is done and has waited {1} for rank {2} to {3}; it ends without it",
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

    /** Makes a slot for each new member, and lets go of those who are gone. Under the group's lock. */
    private void meet() {
        if (group.isEnded()) {
            return;
        }
        contact.look();
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null && endpoint.isConnected() && find(endpoint) == null) {
                MemoryRegion inbox = group.transport().register(layout.bytes());
                Peer peer = new Peer(member, endpoint, inbox, layout.over(inbox.memory()));
                peer.owesDone = concluding;
                peers.add(peer);
                contact.met();
                offer(peer);
            }
        }
    }

    private void mixIn() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (!peer.arrived) {
                continue;
            }
            boolean isMixable = peer.isFinite(seeded);
            if (isMixable && peer.notes != null && !seeded) {
                layout.mix(peer.heard, 0);
                state.restore(Notes.decode(peer.notes));
                beginning = state.notes();
                seeded = true;
            } else if (isMixable && peer.mass > 0) {
                double own = mass / (mass + peer.mass);
                layout.mix(peer.heard, own);
                mass += peer.mass;
                mixed++;
            }
            peer.notes = null;
            group.locked(() -> {
                peer.arrived = false;
                peer.owesCredit = true;
                pump(peer);
            });
        }
    }

    /** Gives weights to start with to those who wait, and sends what could not be sent before. */
    private void serve() {
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.waits && peer.free && !peer.gone) {
                write(peer, 0, NEWS, Notes.encode(founders.contains(peer.member.id()) ? beginning : state.notes()));
            }
            if (peer.owesCredit || peer.owesNews || peer.owesDone || !peer.offered) {
                group.locked(() -> pump(peer));
            }
        }
    }

    private void publish() {
        if (mass < MIN_MASS) {
            return;
        }
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get((turn + i) % peers.size());
            if (peer.free && !peer.gone && !peer.done && !peer.waits && (peer.mapped != null || !stagingBusy)) {
                turn += i + 1;
                double sent = mass / 2;
                mass -= sent;
                write(peer, sent, NEWS, Notes.NONE);
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
            peer.free = false;
            peer.waits &= notes.length == 0;
            peer.newsKind = kind;
            peer.newsMass = sent;
            peer.newsNotes = notes;
            if (peer.mapped != null) {
                peer.owesNews = true;
                pump(peer);
                return;
            }
            stagingBusy = true;
            Completion done = arrived -> {
                stagingBusy = false;
                peer.owesNews = arrived;
                pump(peer);
            };
            if (peer.endpoint.put(staging, 0, peer.outbox, 0, layout.bytes(), done) != Endpoint.OK) {
                stagingBusy = false;
                peer.free = true;
                peer.waits |= notes.length > 0;
                mass += sent;
            }
        });
    }

    private void offer(Peer peer) {
        Offer own = new Offer(seeded || hasSeed() ? Offer.NONE : first, peer.inbox.key().encode(), layout.text());
        peer.offered = peer.endpoint.send(message, 0, own.encode(message, header(OFFER))) == Endpoint.OK;
    }

    /** Sends what is due to a peer, as far as there is room. Under the group's lock. */
    private void pump(Peer peer) {
        if (!peer.offered) {
            offer(peer);
        }
        if (peer.offered && peer.owesCredit) {
            peer.owesCredit = peer.endpoint.send(message, 0, header(CREDIT)) == Endpoint.BACK_PRESSURED;
        }
        if (peer.offered && peer.owesNews) {
            int length = header(peer.newsKind);
            message.putDouble(length, peer.newsMass, ORDER);
            message.putBytes(NOTES_AT, peer.newsNotes);
            peer.owesNews = peer.endpoint.send(message, 0, NOTES_AT + peer.newsNotes.length) == Endpoint.BACK_PRESSURED;
        }
        if (peer.offered && peer.owesDone && !peer.owesNews) {
            peer.owesDone = peer.endpoint.send(message, 0, header(DONE)) == Endpoint.BACK_PRESSURED;
        }
    }

    private int header(int kind) {
        message.putInt(0, Channels.GOSSIP, Channels.ORDER);
        message.putInt(4, kind, ORDER);
        return 8;
    }

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        Peer peer = find(from);
        if (peer == null) {
            meet();
            peer = find(from);
        }
        if (peer == null || length < 4) {
            return;
        }
        switch (buffer.getInt(offset, ORDER)) {
            case OFFER -> takeOffer(peer, buffer, offset + 4, length - 4);
            case NEWS -> takeNews(peer, buffer, offset + 4, length - 4);
            case LAST -> peer.concluded = concluding;
            case DONE -> peer.done = true;
            case CREDIT -> peer.free = true;
            default -> LOG.log(Level.WARNING, "refused an unknown kind of message from rank {0}", peer.member.rank());
        }
    }

    private Peer find(Endpoint endpoint) {
        for (int i = 0; i < peers.size(); i++) {
            if (peers.get(i).endpoint == endpoint) {
                return peers.get(i);
            }
        }
        return null;
    }

    private void takeOffer(Peer peer, DirectBuffer buffer, int offset, int length) {
        Offer offer = Offer.decode(buffer, offset, length);
        if (offer == null) {
            LOG.log(Level.WARNING, "refused a malformed offer from rank {0}", peer.member.rank());
            return;
        }
        peer.first = offer.first();
        peer.waits = peer.first != Offer.NONE;
        if (peer.outbox != null) {
            return; // It is the same offer again.
        }
        if (!offer.layout().equals(layout.text())) {
            failure = new DistributedException("rank " + peer.member.rank() + " trains another model: "
                    + layout.difference(offer.layout()) + "; build the same model on all ranks");
            return;
        }
        peer.outbox = peer.endpoint.open(RegionKey.decode(offer.key()), peer.member.host().equals(group.self().host()));
        peer.mapped = peer.outbox.memory() == null ? null : layout.over(peer.outbox.memory());
        peer.free = true;
        // It may have begun after this worker, and have missed what this one offered.
        offer(peer);
    }

    private void takeNews(Peer peer, DirectBuffer buffer, int offset, int length) {
        double sent = length < 8 || length > Notes.MAX_BYTES ? Double.NaN : buffer.getDouble(offset, ORDER);
        if (!(sent >= 0 && sent < Double.POSITIVE_INFINITY) || peer.arrived) {
            LOG.log(Level.WARNING, "refused malformed news from rank {0}", peer.member.rank());
            return;
        }
        if (concluding) {
            peer.owesCredit = true;
            pump(peer);
            return;
        }
        peer.mass = sent;
        peer.notes = length == 8 ? null : new byte[length - 8];
        if (peer.notes != null) {
            buffer.getBytes(offset + 8, peer.notes);
        }
        peer.arrived = true;
    }

    /** Gives the slots back; what has not been sent yet never will be. */
    @Override
    public void close() {
        if (unlisten == null) {
            return;
        }
        group.locked(() -> {
            group.channel(Channels.GOSSIP, null);
            unlisten.run();
            unlisten = null;
            peers.forEach(Peer::close);
            peers.clear();
            contact.end();
            List.of(staged).forEach(Tensor::close);
            staging.close();
        });
    }
}
