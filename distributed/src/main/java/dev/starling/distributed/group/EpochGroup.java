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

    /** One reference, because of two, other threads might read the rank in one view and the size of another. */
    private volatile Present present = new Present(new View(0, List.of()), null);
    /** {@code null} before the first epoch. */
    volatile @Nullable Engine engine;
    /** What ended the present epoch, or {@code null}. */
    volatile @Nullable DistributedException failure;
    /** {@code null} before the first epoch. */
    private volatile @Nullable GroupCollectives collectives;
    /** Ranks in {@link #ranked} of the members that have sent something, by id. */
    private final Long2LongHashMap ranks = new Long2LongHashMap(UNKNOWN);
    private View ranked = present.view;

    /**
     * The present epoch.
     *
     * @param self this process in the view; {@code null} before the first epoch
     */
    private record Present(View view, @Nullable Member self) { }

    /** Takes the members of the next epoch, of which this process is the one with an id. */
    void take(View next, long ownId) {
        present = new Present(next, Objects.requireNonNull(next.byId(ownId)));
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
        View view = view();
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

    /** Runs an action under the group's lock. */
    abstract void locked(Runnable action);

    /** Throws the failure that ended the present epoch, if it has ended. */
    abstract void check();

    /** Returns this process. */
    public Member self() {
        return Objects.requireNonNull(present.self);
    }

    @Override
    public int rank() {
        return self().rank();
    }

    @Override
    public int world() {
        return view().world();
    }

    @Override
    public long epoch() {
        return view().epoch();
    }

    @Override
    public View view() {
        return present.view;
    }

    @Override
    public Collectives collectives() {
        Collectives[] running = new Collectives[1];
        // Otherwise these may be of an epoch that has not started, which another one may replace.
        locked(() -> {
            check();
            running[0] = Objects.requireNonNull(collectives);
        });
        return running[0];
    }
}
