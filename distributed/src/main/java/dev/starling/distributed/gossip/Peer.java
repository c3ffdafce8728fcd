package dev.starling.distributed.gossip;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;
import java.lang.System.Logger.Level;

/**
 * Another worker. Each has a slot in the other's memory, which it may fill when the other has mixed in what it held.
 * Who writes what: the training thread, or the thread that works for the group, both under the group's lock; slots
 * belong to one side at a time.
 */
final class Peer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    final Member member;
    final Endpoint endpoint;
    /** The peer writes here. */
    final MemoryRegion inbox;
    final Tensor[] heard;
    /** This worker writes there; {@code null} until the peer has offered it. */
    RemoteRegion outbox;
    /** The memory of {@link #outbox}, if it is mapped. */
    Tensor[] mapped;
    /** Whether {@link #outbox} may be filled. */
    volatile boolean free;
    /** Whom the peer takes to be the first of all that it hears, if it waits for weights; 0 if it has not begun. */
    long first;
    /** Whether the peer waits for weights to start with. */
    volatile boolean waits;
    /** Whether {@link #inbox} holds news. */
    volatile boolean arrived;
    volatile boolean gone;
    /** Whether the peer has taken its last step: it takes no more news, and sends no more but its last weights. */
    volatile boolean done;
    /** Whether {@link #inbox} holds the peer's last weights. */
    volatile boolean concluded;
    double mass;
    byte[] notes;
    /** A message that has yet to be sent. */
    boolean owesCredit;
    boolean owesDone;
    volatile boolean owesNews;
    int newsKind;
    double newsMass;
    byte[] newsNotes;
    boolean offered;

    Peer(Member member, Endpoint endpoint, MemoryRegion inbox, Tensor[] heard) {
        this.member = member;
        this.endpoint = endpoint;
        this.inbox = inbox;
        this.heard = heard;
    }

    void close() {
        for (Tensor each : heard) {
            each.close();
        }
        if (mapped != null) {
            for (Tensor each : mapped) {
                each.close();
            }
        }
        if (outbox != null) {
            outbox.close();
        }
        inbox.close();
    }

    /**
     * Tells whether the weights that arrived are finite, and logs it if not.
     *
     * @param seeded whether this worker has weights already; else it cannot start
     * @throws DistributedException if this worker was to start with weights that are not finite
     */
    boolean isFinite(boolean seeded) {
        if (WeightLayout.isFinite(heard)) {
            return true;
        }
        if (!seeded) {
            throw new DistributedException("rank " + member.rank() + " sent weights to start with that are infinite or "
                    + "NaN; look at its model");
        }
        LOG.log(Level.WARNING, "rank {0} sent weights that are infinite or NaN; they are not mixed in", member.rank());
        return false;
    }
}
