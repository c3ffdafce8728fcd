package dev.starling.distributed.collective.network;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.distributed.collective.shared.DirectCollectives;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.WeakHashMap;
import org.jspecify.annotations.Nullable;

/**
 * All-reduce by host. The ranks of each host first reduce in the memory that they share. The first ranks of all hosts
 * then reduce these partial results around a {@link Ring}, and each host distributes the result among its ranks. Each
 * host thus sends and receives as much as one rank would.
 */
final class Hierarchy implements Algorithm {
    private final int[] ranks;
    /** {@code null} if this rank is not the first of its host. */
    private final @Nullable Ring ring;
    private final DirectCollectives direct;
    private final MemorySegment[] memories;
    private final Map<CollectiveCall, Steps> steps = new WeakHashMap<>();
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private Steps present;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private SymmetricMemory memory;
    private long offset;
    private Phase phase = Phase.DONE;

    private enum Phase { REDUCING, CIRCLING, SHARING, DONE }

    /** The two collectives within the host. */
    private record Steps(CollectiveCall reduce, CollectiveCall share) { }

    /**
     * Creates the algorithm.
     *
     * @param hosts placement of ranks on hosts
     * @param control the ranks' control pages
     * @param ring of the first ranks of all hosts, or {@code null} if this rank is not one of them
     */
    Hierarchy(Placement hosts, SymmetricMemory control, @Nullable Ring ring) {
        ranks = hosts.near();
        this.ring = ring;
        memories = new MemorySegment[ranks.length];
        direct = new DirectCollectives(hosts.place(), near(control));
    }

    /** Returns whether a collective can use this algorithm; all ranks come to the same result. */
    static boolean supports(CollectiveCall call, SymmetricMemory memory) {
        // A host's partial result has the elements' type, so sums that must not be rounded early, or wrap, do not.
        return call.kind() == Kind.ALL_REDUCE && memory.isHosted()
                && !ReduceKernels.needsWide(call.dtype(), call.op());
    }

    private MemorySegment[] near(SymmetricMemory from) {
        MemorySegment[] found = new MemorySegment[ranks.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = from.memories()[ranks[i]];
        }
        return found;
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory newMemory, long newOffset) {
        call = newCall;
        present = steps.computeIfAbsent(call, Hierarchy::steps);
        memory = newMemory;
        offset = newOffset;
        for (int i = 0; i < memories.length; i++) {
            memories[i] = memory.memories()[ranks[i]];
        }
        direct.begin(present.reduce, memories, offset);
        phase = Phase.REDUCING;
    }

    private static Steps steps(CollectiveCall call) {
        ReduceOp op = call.op() == ReduceOp.AVERAGE ? ReduceOp.SUM : call.op();
        return new Steps(CollectiveCall.allReduce(call.dtype(), op, call.count(), "a host's partial result of " + call),
                CollectiveCall.broadcast(call.dtype(), call.count(), 0, "the result of " + call));
    }

    @Override
    public int doWork() {
        if (phase == Phase.DONE) {
            return 0;
        }
        Algorithm working = phase == Phase.CIRCLING && ring != null ? ring : direct;
        int work = working.doWork();
        if (working.isDone()) {
            phase = next();
            work++;
        }
        return work;
    }

    /** Begins the next phase, and returns it. */
    private Phase next() {
        if (phase == Phase.SHARING) {
            return Phase.DONE;
        }
        if (phase == Phase.REDUCING && ring != null) {
            ring.begin(call, memory, offset);
            return Phase.CIRCLING;
        }
        direct.begin(present.share, memories, offset);
        return Phase.SHARING;
    }

    @Override
    public boolean isDone() {
        return phase == Phase.DONE;
    }

    @Override
    public int awaited() {
        if (phase == Phase.CIRCLING && ring != null) {
            return ring.awaited();
        }
        int place = direct.awaited();
        return place < 0 ? -1 : ranks[place];
    }
}
