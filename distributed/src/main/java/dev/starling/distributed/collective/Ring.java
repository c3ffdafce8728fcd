package dev.starling.distributed.collective;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.CollectiveCall.Kind;
import dev.starling.transport.Completion;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;
import java.util.Arrays;

/**
 * Collectives around a ring: each rank only sends to its successor and receives from its predecessor, in pieces, so
 * that one is reduced while the next is on its way. (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009)
 *
 * <p>Partial sums travel to scratch slots of the successor, final values straight to where they belong. What a rank
 * receives it sends on a few pieces later, while that is still in the processor's cache.
 *
 * <p><b>Why no slot is overwritten too early.</b> Slots are used in turns, and numbers of pieces only grow, from one
 * collective to the next. The predecessor sends piece n only when it was told that piece n - SLOTS was reduced; so it
 * does not matter how far ahead it is.
 *
 * <p><b>Why no elements are overwritten too early.</b> A final value in an all-reduce is computed from what every rank
 * has sent of that piece before; so when it comes, this rank has begun, and its own elements of the piece were sent and
 * have arrived. In an all-gather and a broadcast values are only sent after a READY of the successor.
 *
 * <p><b>Why it does not stand still.</b> In an all-reduce partial sums go into the elements themselves, so that
 * reducing waits for nothing, and each rank may send its first chunk as its successor reduces. In a reduce-scatter
 * elements of others stay as they are, and partial sums wait in {@value #OUTGOING} outgoing slots: piece n, of which
 * the next step is SEGMENT pieces later, waits for an outgoing slot until piece n - OUTGOING has left one step later,
 * as number n - OUTGOING + SEGMENT, which is less than n; and for a slot of the successor until that has reduced n -
 * SLOTS. So it is with sums of 16-bit floats, too, which travel as f32 from the second rank on, to be rounded once:
 * they do not fit into the elements.
 */
final class Ring {
    /**
     * Small enough to stay in a processor's cache until it is sent on, and with all that goes before it just within six
     * of the largest packets of a loopback device (65,483 bytes of data each): what is left over would cost a packet
     * and its answer more. A multiple of 128, so that half a piece ends on a cache line.
     */
    static final int PIECE = 392_576;
    /** Few, so that what is on its way stays in the processors' caches: four are faster than eight. */
    static final int SLOTS = 4;
    static final int OUTGOING = 4;
    static final int SEGMENT = 2;
    static final long SCRATCH_BYTES = (long) (SLOTS + OUTGOING) * PIECE;

    private static final int CREDIT_EVERY = SLOTS / 2;
    private static final int AT_ONCE = 4;

    private final Fabric fabric;
    private final int rank;
    private final int world;
    private final long mark;
    private final int successor;
    private final int predecessor;
    private final PieceCursor sending = new PieceCursor();
    private final PieceCursor receiving = new PieceCursor();
    private final ReduceKernels kernels;
    private final long[] sources = new long[2];
    private final long[] target = new long[1];
    private final long[] noTarget = {};
    private final Completion arrivedThere;
    private final Completion leftSlot;
    private MemoryRegion scratch;
    private RemoteRegion scratchThere;
    private long scratchOffset;

    /** Numbers that only grow: pieces that arrived, and of them those dealt with. */
    private long arrived;
    private long taken;
    /** Pieces that went to slots of the successor, and those it has reduced. */
    private long slotsSent;
    private long slotsGranted;
    /** Pieces in slots here that were reduced, and those the predecessor knows of. */
    private long reduced;
    private long credited;
    /** Partial sums that went into outgoing slots, were sent from there, and left them for good. */
    private long filled;
    private long drained;
    private long left;

    private CollectiveCall call;
    private SymmetricMemory memory;
    private long offset;
    private int reductions;
    private boolean wide;
    private boolean keepsApart;
    private int underWay;
    /** Whether the ranks agree, and how much of the piece that comes next was reduced as it came. */
    private boolean agreed;
    private long reducedBytes;

    /**
     * Makes a ring.
     *
     * @param ranks that it consists of, in order; this one is among them
     * @param number 0 or 1, to tell apart two rings that a rank belongs to
     */
    Ring(Fabric fabric, int[] ranks, int number, ReduceKernels kernels) {
        this.fabric = fabric;
        this.kernels = kernels;
        rank = Arrays.binarySearch(ranks, fabric.rank());
        world = ranks.length;
        mark = fabric.epoch() << 1 | number;
        successor = ranks[(rank + 1) % world];
        predecessor = ranks[Math.floorMod(rank - 1, world)];
        // A peer that is lost needs no value any more: whoever waits for one of its is told.
        arrivedThere = success -> underWay--;
        leftSlot = success -> {
            underWay--;
            left++;
        };
    }

    /** Takes the memory for pieces on their way, from {@code at} on. */
    void open(SymmetricMemory control, long at) {
        scratch = control.region();
        scratchThere = control.remote(successor);
        scratchOffset = at;
    }

    void begin(CollectiveCall newCall, SymmetricMemory newMemory, long newOffset) {
        agreed = false;
        call = newCall;
        memory = newMemory;
        offset = newOffset;
        wide = call.op() != null && world > 2 && ReduceKernels.needsWide(call.dtype(), call.op());
        keepsApart = wide || call.kind() == Kind.REDUCE_SCATTER;
        switch (call.kind()) {
            case ALL_REDUCE -> begin(false, rank, 2 * (world - 1), world - 1);
            case REDUCE_SCATTER -> begin(true, rank - 1, world - 1, world - 1);
            case ALL_GATHER -> begin(true, rank, world - 1, 0);
            case BROADCAST -> beginBroadcast(call.bytes());
            case BARRIER -> throw new AssertionError(call);
        }
    }

    private void begin(boolean equal, int chunk, int steps, int reducingSteps) {
        reductions = reducingSteps;
        int piece = wide ? PIECE / 2 : PIECE;
        int segment = keepsApart ? SEGMENT : 1;
        sending.begin(call.bytes(), world, equal, chunk, 0, steps, piece, segment, !keepsApart);
        receiving.begin(call.bytes(), world, equal, chunk - 1, 0, steps, piece, segment, !keepsApart);
    }

    /** A broadcast is a chain: one chunk, which the root sends in step 0 and others, but the last, in step 1. */
    private void beginBroadcast(long bytes) {
        reductions = 0;
        if (rank == call.root()) {
            sending.begin(bytes, 1, true, 0, 0, 1, PIECE, 1, false);
            receiving.beginEmpty();
        } else {
            receiving.begin(bytes, 1, true, 0, 0, 1, PIECE, 1, false);
            if ((rank + 1) % world == call.root()) {
                sending.beginEmpty();
            } else {
                sending.begin(bytes, 1, true, 0, 1, 2, PIECE, 1, false);
            }
        }
    }

    /** Learns that a put has arrived. */
    void told(int from, long immediate) {
        if (from == predecessor && immediate == mark) {
            arrived++;
        }
    }

    int predecessor() {
        return predecessor;
    }

    /** Learns how many pieces the successor has reduced. */
    void granted(long count) {
        slotsGranted = Math.max(slotsGranted, count);
    }

    /** Returns the number of pieces reduced if the predecessor should be told, else -1. */
    long dueCredit() {
        return reduced - credited >= CREDIT_EVERY ? reduced : -1;
    }

    void credited(long count) {
        credited = count;
    }

    /**
     * Reduces what comes for the slot that is next, where it is, so that it need not be written there; unless it comes
     * too early, or there are others to be dealt with before.
     */
    boolean take(long at, long address, int bytes) {
        if (!agreed || receiving.isAtEnd() || receiving.step() >= reductions || keepsApart || taken < arrived
                || at != slot(reduced) + reducedBytes || reducedBytes + bytes > receiving.length()
                || bytes % call.dtype().bytes() != 0) {
            return false;
        }
        reduce(address, bytes);
        reducedBytes += bytes;
        if (reducedBytes == receiving.length()) {
            // That it has arrived is told later.
            advance();
        }
        return true;
    }

    /** Takes nothing any more: there may be no elements to reduce into. */
    void breakOff() {
        agreed = false;
    }

    /** Gets on; {@code ready} tells whether values may be sent that the successor does not wait for yet. */
    int doWork(boolean ready) {
        agreed = true;
        int work = send(ready);
        for (int i = 0; i < AT_ONCE && receive(); i++) {
            work += 1 + send(ready);
        }
        return work;
    }

    private boolean receive() {
        if (receiving.isAtEnd() || taken >= arrived) {
            return false;
        }
        if (receiving.step() < reductions) {
            boolean apart = keepsApart && !isLastReduction();
            if (apart && filled - left >= OUTGOING) {
                return false;
            }
            long slot = scratch.memory().address() + slot(reduced);
            if (wide) {
                reduceWide(slot, apart);
            } else {
                reduce(slot + reducedBytes, receiving.length() - reducedBytes);
            }
            filled += apart ? 1 : 0;
        }
        advance();
        return true;
    }

    private void advance() {
        reduced += receiving.step() < reductions ? 1 : 0;
        reducedBytes = 0;
        taken++;
        receiving.next();
    }

    private boolean isLastReduction() {
        return receiving.step() == reductions - 1;
    }

    /** Reduces so many bytes of a piece, after those that were reduced before. */
    private void reduce(long from, long bytes) {
        boolean last = isLastReduction();
        sources[0] = from;
        sources[1] = ownElements() + reducedBytes;
        target[0] = keepsApart && !last ? scratch.memory().address() + outgoing(filled) : sources[1];
        ReduceOp op = call.op() == ReduceOp.AVERAGE && !last ? ReduceOp.SUM : call.op();
        kernels.reduce(call.dtype(), op, sources, target, 0, bytes / call.dtype().bytes(), fabric.world());
    }

    private long ownElements() {
        return memory.own().address() + offset + receiving.offset();
    }

    /** What comes first are elements of the predecessor, later ones are partial sums in f32. */
    private void reduceWide(long slot, boolean apart) {
        int count = (int) (receiving.length() / call.dtype().bytes());
        boolean goesOn = receiving.step() > 0;
        long partial = apart ? scratch.memory().address() + outgoing(filled) : slot;
        if (goesOn && apart) {
            ReduceKernels.copy(slot, partial, (long) count * Float.BYTES);
        }
        sources[0] = slot;
        sources[1] = ownElements();
        target[0] = sources[1];
        kernels.reduceWide(call.dtype(), call.op(), goesOn ? target : sources, goesOn, partial,
                apart ? noTarget : target, count, fabric.world());
    }

    private int send(boolean ready) {
        int work = 0;
        while (!sending.isAtEnd() && (sending.step() == 0 || receiving.isPast(sending)) && sendPiece(ready)) {
            sending.next();
            work++;
        }
        return work;
    }

    private boolean sendPiece(boolean ready) {
        boolean partial = sending.step() < reductions;
        if (partial ? slotsSent - slotsGranted >= SLOTS : !ready) {
            return false;
        }
        boolean apart = partial && sending.step() > 0 && keepsApart;
        long bytes = apart && wide ? sending.length() * (Float.BYTES / call.dtype().bytes()) : sending.length();
        MemoryRegion source = apart ? scratch : memory.region();
        long from = apart ? outgoing(drained) : offset + sending.offset();
        RemoteRegion to = partial ? scratchThere : memory.remote(successor);
        long at = partial ? slot(slotsSent) : from;
        // The last tells of all before it.
        Completion completion = apart ? leftSlot : sending.isLast() ? arrivedThere : null;
        underWay += completion == null ? 0 : 1;
        int code = fabric.endpoint(successor).putAndNotify(source, from, to, at, bytes, mark, completion);
        if (code != Endpoint.OK) {
            underWay -= completion == null ? 0 : 1;
            return false;
        }
        slotsSent += partial ? 1 : 0;
        drained += apart ? 1 : 0;
        return true;
    }

    private long slot(long number) {
        return scratchOffset + number % SLOTS * PIECE;
    }

    private long outgoing(long number) {
        return scratchOffset + (SLOTS + number % OUTGOING) * PIECE;
    }

    /** Returns the rank that is waited for while it is not done. */
    int awaited() {
        return receiving.isAtEnd() ? successor : predecessor;
    }

    /** Returns whether all has come, and all that was sent has arrived. */
    boolean isDone() {
        return receiving.isAtEnd() && sending.isAtEnd() && underWay == 0;
    }
}
