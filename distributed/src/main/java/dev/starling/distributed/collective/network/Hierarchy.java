package dev.starling.distributed.collective.network;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.shared.DirectCollectives;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.WeakHashMap;

/**
 * All-reduce by host. The ranks of each host first reduce in the memory that they share. The first ranks of all hosts
 * then reduce these partial results around a {@link Ring}, and each host distributes the result among its ranks. Each
 * host thus sends and receives as much as one rank would.
 */
final class Hierarchy {
    private final int[] ranks;
    private final Ring ring;
    private final DirectCollectives direct;
    private final MemorySegment[] memories;
    private final Map<CollectiveCall, Steps> steps = new WeakHashMap<>();
    private Steps present;
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
    Hierarchy(Placement hosts, SymmetricMemory control, Ring ring) {
        ranks = hosts.near();
        this.ring = ring;
        memories = new MemorySegment[ranks.length];
        direct = new DirectCollectives(hosts.place(), near(control));
    }

    private MemorySegment[] near(SymmetricMemory from) {
        MemorySegment[] found = new MemorySegment[ranks.length];
        for (int i = 0; i < found.length; i++) {
            found[i] = from.memories()[ranks[i]];
        }
        return found;
    }

    void begin(CollectiveCall call, SymmetricMemory newMemory, long newOffset) {
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

    int doWork(CollectiveCall call) {
        return switch (phase) {
            case REDUCING -> {
                int work = direct.doWork();
                if (direct.isDone()) {
                    phase = ring == null ? Phase.SHARING : Phase.CIRCLING;
                    if (ring == null) {
                        direct.begin(present.share, memories, offset);
                    } else {
                        ring.begin(call, memory, offset);
                    }
                    work++;
                }
                yield work;
            }
            case CIRCLING -> {
                int work = ring.doWork(true);
                if (ring.isDone()) {
                    phase = Phase.SHARING;
                    direct.begin(present.share, memories, offset);
                    work++;
                }
                yield work;
            }
            case SHARING -> {
                int work = direct.doWork();
                phase = direct.isDone() ? Phase.DONE : Phase.SHARING;
                yield work;
            }
            case DONE -> 0;
        };
    }

    boolean isDone() {
        return phase == Phase.DONE;
    }

    /** Returns a rank for which the collective waits, or -1. */
    int awaited() {
        if (phase == Phase.CIRCLING) {
            return ring.awaited();
        }
        int place = direct.awaited();
        return place < 0 ? -1 : ranks[place];
    }
}
