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
import java.util.Objects;
import org.agrona.collections.Long2LongHashMap;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/** The members of a group or sub-group in its present epoch, and their collectives; changed under the group's lock. */
abstract sealed class EpochGroup implements Group permits Membership, SubGroup {
    private static final long UNKNOWN = Long.MIN_VALUE;

    volatile View view = new View(0, List.of());
    /** This process in the view; set by {@link #take}. */
    @SuppressWarnings("NullAway.Init")
    volatile Member self;
    /** {@code null} before the first epoch. */
    volatile @Nullable Engine engine;
    /** What ended the present epoch, or {@code null}. */
    volatile @Nullable DistributedException failure;
    /** {@code null} before the first epoch. */
    private volatile @Nullable GroupCollectives collectives;
    /** Ranks in {@link #ranked} of the members that have sent something, by id. */
    private final Long2LongHashMap ranks = new Long2LongHashMap(UNKNOWN);
    private View ranked = view;

    /** Takes the members of the next epoch, of which this process is the one with an id. */
    void take(View next, long ownId) {
        view = next;
        self = Objects.requireNonNull(next.byId(ownId));
    }

    /** Creates the collectives of an epoch, in place of those of the last one. */
    void begin(Membership group, Fabric fabric, int channel) {
        if (engine != null) {
            engine.close();
        }
        Engine next = new Engine(fabric, group, channel);
        engine = next;
        collectives = new GroupCollectives(group, next, fabric.rank(), collectives);
    }

    /** Returns the engine of the present epoch; the first must have begun. */
    Engine engine() {
        return Objects.requireNonNull(engine);
    }

    /** Returns the rank of the process at the other end of a connection, or -1 if it is not a member. */
    int rankOf(Endpoint endpoint) {
        return endpoint.attachment() instanceof Long id ? rankOf(id) : -1;
    }

    /** Returns the rank of the member with an id, or -1 if there is none. */
    int rankOf(long id) {
        if (ranked != view) {
            ranks.clear();
            ranked = view;
        }
        long rank = ranks.get(id);
        if (rank == UNKNOWN) {
            Member member = view.byId(id);
            rank = member == null ? -1 : member.rank();
            ranks.put(id, rank);
        }
        return (int) rank;
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
        }
        if (collectives != null) {
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
        return Objects.requireNonNull(collectives);
    }
}
