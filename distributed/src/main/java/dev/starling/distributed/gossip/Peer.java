package dev.starling.distributed.gossip;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.gossip.GossipMessage.Announcement;
import dev.starling.distributed.gossip.GossipMessage.Credit;
import dev.starling.distributed.gossip.GossipMessage.Finished;
import dev.starling.distributed.gossip.GossipMessage.Initial;
import dev.starling.distributed.gossip.GossipMessage.Settings;
import dev.starling.distributed.gossip.GossipMessage.Weights;
import dev.starling.nn.train.RunSettings;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import java.lang.System.Logger.Level;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import java.util.function.LongSupplier;
import org.agrona.ExpandableArrayBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Another worker. Each worker has a slot in the other's memory, which it may fill after the other has mixed in its
 * previous content. States are changed by the training thread or the thread that works for the group, both under the
 * group's lock; a slot belongs to one side at a time.
 */
final class Peer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    /**
     * What the peer does, as far as this worker knows: it has announced nothing yet; it waits for initial weights; it
     * has weights, or has been sent initial ones; it has taken its last step, mixes in no more updates and sends only
     * its final weights; it is lost or has left.
     */
    enum Phase { STARTING, WAITING, TRAINING, FINISHED, ABSENT }

    /** What the slot in this worker's memory holds: weights that have yet to be mixed in, or the final ones. */
    enum Inbox { EMPTY, FRESH, FINAL }

    /** Whether the slot in the peer's memory is announced, may be filled, and is filled or being filled. */
    enum Outbox { UNKNOWN, WRITABLE, WRITTEN }

    /** Messages that may be due, in the order in which they are sent. */
    enum Due { ANNOUNCEMENT, SETTINGS, CREDIT, WEIGHTS, FINISHED }

    /** With its rank in the last view that had it. */
    volatile Member member;
    final Endpoint endpoint;
    private final WeightLayout layout;
    private final LongSupplier awaitedId;
    /** Those of this worker. */
    private final RunSettings settings;
    /** Whether the peer has announced its settings in this run. What it sends before that is of an earlier run. */
    boolean announced;
    volatile Phase phase = Phase.STARTING;
    /**
     * Id of the member that the peer considers the first of all that it reaches, if it waits for weights; 0 if it has
     * not started.
     */
    long firstId;

    volatile Inbox inbox = Inbox.EMPTY;
    /** Memory for the peer's weights; {@code null} before it has been allocated. */
    private @Nullable MemoryRegion region;
    /** The weights in {@link #region}. */
    Tensor[] received = {};
    /** What came with the weights in the inbox. */
    @Nullable Weights update;

    volatile Outbox outbox = Outbox.UNKNOWN;
    /** {@code null} before the peer's announcement. */
    private @Nullable RemoteRegion slot;
    /** The memory of {@link #slot}, if it is mapped. */
    private Tensor @Nullable [] mapped;
    /** The weights written last, or {@code null}. */
    private @Nullable Weights written;

    final Set<Due> due = EnumSet.of(Due.ANNOUNCEMENT);
    private final ExpandableArrayBuffer message = new ExpandableArrayBuffer();

    /**
     * Creates a peer that has yet to be given a slot in this worker's memory, and to be sent an announcement.
     *
     * @param awaitedId returns the id to announce
     */
    Peer(Member member, Endpoint endpoint, WeightLayout layout, RunSettings settings, LongSupplier awaitedId) {
        this.member = member;
        this.endpoint = endpoint;
        this.layout = layout;
        this.awaitedId = awaitedId;
        this.settings = settings;
    }

    /** Returns whether the peer is present and has no slot in this worker's memory yet. */
    boolean needsRegion() {
        return region == null && phase != Phase.ABSENT;
    }

    /** Gives the peer its slot in this worker's memory, and sends the messages that wait for that. */
    void take(MemoryRegion slotHere) {
        region = slotHere;
        received = layout.over(slotHere.memory());
        sendDue();
    }

    void close() {
        for (Tensor each : received) {
            each.close();
        }
        if (mapped != null) {
            for (Tensor each : mapped) {
                each.close();
            }
        }
        if (slot != null) {
            slot.close();
        }
        if (region != null) {
            region.close();
            // A put that completes later sends no message: a worker in its next run would read another slot.
            region = null;
        }
    }

    /** Changes the phase. A peer that has finished trains no more, and one that is absent does not return. */
    void become(Phase next) {
        if (phase.compareTo(Phase.FINISHED) < 0 || next.compareTo(phase) > 0) {
            phase = next;
        }
    }

    /** Returns whether this worker knows whether the peer has the same settings, and the peer does. */
    boolean isCompared() {
        return announced && !due.contains(Due.ANNOUNCEMENT) && !due.contains(Due.SETTINGS);
    }

    /**
     * Handles an announcement, and answers the first one: the peer may have started after this worker, and have missed
     * its announcement. After the final weights of this run it is that of the peer's next run, and does not count: the
     * peer repeats it when this worker is in that run.
     *
     * @return false if the peer trains another model with the same settings
     */
    boolean onAnnouncement(Announcement announcement, boolean onSameHost) {
        if (inbox == Inbox.FINAL) {
            return true;
        }
        if (!announced) {
            announced = true;
            due.add(Due.ANNOUNCEMENT);
        }
        boolean same = true;
        if (announcement.settings() != settings.checksum()) {
            due.add(Due.SETTINGS);
        } else {
            firstId = announcement.firstId();
            become(firstId == Announcement.NONE ? Phase.TRAINING : Phase.WAITING);
            same = announcement.layout() == layout.checksum();
            if (same && slot == null) {
                slot = endpoint.open(RegionKey.decode(announcement.key()), onSameHost);
                mapped = slot.memory() == null ? null : layout.over(slot.memory());
                outbox = Outbox.WRITABLE;
            }
        }
        sendDue();
        return same;
    }

    /** Returns whether the inbox holds initial weights. */
    boolean hasInitialWeights() {
        return inbox == Inbox.FRESH && update instanceof Initial;
    }

    void receive(Weights newUpdate) {
        update = newUpdate;
        inbox = Inbox.FRESH;
    }

    /** Gives the inbox back to the peer: its content was mixed in, or dropped. */
    void release() {
        inbox = Inbox.EMPTY;
        send(Due.CREDIT);
    }

    /**
     * Returns whether the received weights are finite, and logs a warning if not.
     *
     * @param initialised whether this worker has weights already; otherwise it cannot start
     * @throws DistributedException if this worker should start with weights that are not finite
     */
    boolean isFinite(boolean initialised) {
        if (WeightLayout.isFinite(received)) {
            return true;
        }
        if (!initialised) {
            throw new DistributedException("rank " + member.rank() + " sent initial weights that are infinite or "
                    + "NaN; check its model");
        }
        LOG.log(Level.WARNING, "rank {0} sent weights that are infinite or NaN; they are not mixed in", member.rank());
        return false;
    }

    /** Returns whether the peer is in a phase, and weights may be written for it now. */
    boolean accepts(Phase asked, Staging staging) {
        return phase == asked && outbox == Outbox.WRITABLE && (mapped != null || !staging.isBusy());
    }

    /** Returns the tensors into which weights for the peer are written. */
    Tensor[] target(Staging staging) {
        return mapped != null ? mapped : staging.weights();
    }

    /** Sends the weights in {@link #target}; returns false, and changes nothing, if the link has no room. */
    boolean write(Weights newWeights, Staging staging) {
        outbox = Outbox.WRITTEN;
        written = newWeights;
        if (mapped == null && !staging.put(endpoint, Objects.requireNonNull(slot), () -> send(Due.WEIGHTS))) {
            outbox = Outbox.WRITABLE;
            return false;
        }
        if (newWeights instanceof Initial) {
            become(Phase.TRAINING);
        }
        if (mapped != null) {
            send(Due.WEIGHTS);
        }
        return true;
    }

    void onCredit() {
        outbox = outbox == Outbox.WRITTEN ? Outbox.WRITABLE : outbox;
    }

    /** Sends a message, as soon as there is room. */
    void send(Due kind) {
        due.add(kind);
        sendDue();
    }

    /**
     * Sends the messages that are due, as far as there is room; none before the first can be sent, with the key. That
     * this worker has finished is sent after the peer's announcement: a peer in an earlier run would not keep it.
     */
    void sendDue() {
        if (region == null) {
            return;
        }
        for (Due kind : Due.values()) {
            if (due.contains(kind) && (announced || kind != Due.FINISHED)) {
                if (endpoint.send(message, 0, GossipMessage.write(message, message(kind))) == Endpoint.BACK_PRESSURED) {
                    return;
                }
                due.remove(kind);
            }
        }
    }

    private GossipMessage message(Due kind) {
        return switch (kind) {
            case ANNOUNCEMENT -> new Announcement(awaitedId.getAsLong(), settings.checksum(),
                    Objects.requireNonNull(region).key().encode(), layout.checksum(), layout.text());
            case SETTINGS -> new Settings(settings);
            case CREDIT -> new Credit();
            case WEIGHTS -> Objects.requireNonNull(written);
            case FINISHED -> new Finished();
        };
    }
}
