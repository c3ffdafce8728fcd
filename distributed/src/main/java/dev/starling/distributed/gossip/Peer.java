package dev.starling.distributed.gossip;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;
import java.lang.System.Logger.Level;

/**
 * Another worker. Each worker has a slot in the other's memory, which it may fill after the other has mixed in its
 * previous content. Fields are written by the training thread or the thread that works for the group, both under the
 * group's lock; a slot belongs to one side at a time.
 */
final class Peer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    final Member member;
    final Endpoint endpoint;
    /** The slot for the peer's weights in this worker's memory. */
    final MemoryRegion inbox;
    final Tensor[] received;
    /** The slot for this worker's weights in the peer's memory; {@code null} until the peer has announced it. */
    RemoteRegion outbox;
    /** The memory of {@link #outbox}, if it is mapped. */
    Tensor[] mapped;
    /** Whether {@link #outbox} may be filled. */
    volatile boolean writable;
    /**
     * Id of the member that the peer considers the first of all that it reaches, if it waits for weights; 0 if it has
     * not started.
     */
    long firstId;
    /** Whether the peer waits for initial weights. */
    volatile boolean waiting;
    /** Whether {@link #inbox} holds an update that has yet to be mixed in. */
    volatile boolean fresh;
    volatile boolean absent;
    /** Whether the peer has taken its last step: it mixes in no more updates, and sends only its final weights. */
    volatile boolean finished;
    /** Whether {@link #inbox} holds the peer's final weights. */
    volatile boolean finalReceived;
    double mass;
    byte[] notes;
    /** Messages that have yet to be sent. */
    boolean creditDue;
    boolean finishDue;
    volatile boolean updateDue;
    int updateKind;
    double updateMass;
    byte[] updateNotes;
    boolean announced;

    Peer(Member member, Endpoint endpoint, MemoryRegion inbox, Tensor[] received) {
        this.member = member;
        this.endpoint = endpoint;
        this.inbox = inbox;
        this.received = received;
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
        if (outbox != null) {
            outbox.close();
        }
        inbox.close();
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
}
