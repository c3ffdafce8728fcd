package dev.starling.distributed.group;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import dev.starling.distributed.collective.Engine;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.transport.Endpoint;
import java.util.List;
import org.agrona.DirectBuffer;

/** The members of a group or sub-group in its present epoch, and their collectives; changed under the group's lock. */
abstract sealed class EpochGroup implements Group permits Membership, SubGroup {
    volatile View view = new View(0, List.of());
    /** This process in the view. */
    volatile Member self;
    /** {@code null} before the first epoch. */
    volatile Engine engine;
    /** What ended the present epoch, or {@code null}. */
    volatile DistributedException failure;
    private volatile GroupCollectives collectives;

    /** Creates the collectives of an epoch, in place of those of the last one. */
    void begin(Membership group, Fabric fabric, int channel) {
        if (engine != null) {
            engine.close();
        }
        engine = new Engine(fabric, group, channel);
        collectives = new GroupCollectives(group, engine, collectives);
    }

    /** Returns the rank of the process at the other end of a connection, or -1 if it is not a member. */
    int rankOf(Endpoint endpoint) {
        Member member = endpoint.attachment() instanceof Long id ? view.byId(id) : null;
        return member == null ? -1 : member.rank();
    }

    /** Handles a message of the collectives. */
    void onCollectiveMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int rank = rankOf(from);
        if (engine != null && rank >= 0) {
            engine.onMessage(rank, buffer, offset, length);
        }
    }

    /** Handles the arrival of a put. */
    void onPut(Endpoint from, long immediate) {
        int rank = rankOf(from);
        if (engine != null && rank >= 0) {
            engine.onPut(rank, immediate);
        }
    }

    /** Frees the memory of the collectives. */
    void release() {
        if (engine != null) {
            engine.close();
            collectives.close();
        }
    }

    /** Throws the failure that ended the present epoch, if it has ended. */
    abstract void check();

    @Override
    public int rank() {
        return self.rank();
    }

    @Override
    public int world() {
        return view.world();
    }

    @Override
    public long epoch() {
        return view.epoch();
    }

    @Override
    public View view() {
        return view;
    }

    @Override
    public Collectives collectives() {
        check();
        return collectives;
    }
}
