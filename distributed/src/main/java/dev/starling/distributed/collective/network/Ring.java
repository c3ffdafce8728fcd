package dev.starling.distributed.collective.network;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.transport.Completion;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;
import java.util.Arrays;

/**
 * Collectives around a ring: each rank only sends to its successor and receives from its predecessor, in pieces, so
 * that one piece is reduced while the next is in flight. (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms,
 * 2009)
 *
 * <p>Partial sums travel to scratch slots of the successor, final values directly to their destination. A rank forwards
 * a received piece a few pieces later, while it is still in the processor's cache.
 *
 * <p><b>Why no slot is overwritten too early.</b> Slots are used cyclically, and piece numbers only grow, from one
 * collective to the next. The predecessor sends piece n only after a credit says that piece n - SLOTS was reduced, no
 * matter how many collectives it is ahead.
 *
 * <p><b>Why no elements are overwritten too early.</b> A final value in an all-reduce depends on the contributions of
 * every rank to that piece. When it arrives, this rank has therefore begun the collective, and its own elements of the
 * piece were sent and have arrived. In an all-gather and a broadcast, a rank sends values only after a READY of its
 * successor.
 *
 * <p><b>Why there is no deadlock.</b> In an all-reduce, partial sums replace the elements themselves, so reducing never
 * waits for memory, and each rank can send its first chunk while its successor reduces. In a reduce-scatter, the
 * elements of other chunks must not change, so partial sums wait in {@value #OUTGOING} outgoing slots. The next step of
 * piece n is SEGMENT pieces later. Piece n waits for an outgoing slot until piece n - OUTGOING has been sent in its
 * next step, as number n - OUTGOING + SEGMENT, which is less than n; and for a slot of the successor until that has
 * reduced piece n - SLOTS. Both are earlier pieces, so some piece can always proceed. The same holds for sums of 16-bit
 * floats, which travel as f32 from the second rank on, to be rounded once, and for those of averages of i32, which
 * travel as i64: they do not fit into the elements.
 */
final class Ring implements Algorithm {
    /**
     * Bytes of the largest packets with an MTU of 1500, which the kernel or the device cuts into 45 segments. Those of
     * a loopback device have a few bytes more.
     */
    private static final int PACKET = 45 * 1448;
    /** At most three headers of a piece. */
    private static final int HEADERS = 384;
    private static final int MAX_PACKETS = 6;
    /**
     * Bytes of a piece. Small enough to stay in a processor's cache until it is forwarded. With its headers, a piece
     * just fits into whole packets; a remainder would cost another packet and its acknowledgement.
     */
    static final int PIECE = piece(MAX_PACKETS);
    /** Bytes at the end of a chunk that belong to the piece before them: a message of their own would cost more. */
    static final int REMAINDER = 8 << 10;
    /** A slot holds a piece and its remainder, also where partial sums are twice as wide as the elements. */
    private static final int SLOT = PIECE + 2 * REMAINDER;
    private static final int PIECES_OF_CHUNK = 2;
    private static final int ALIGNMENT = 128;
    /** Few, so that pieces in flight stay in the processors' caches: four are faster than eight. */
    static final int SLOTS = 4;
    static final int OUTGOING = 4;
    static final int SEGMENT = 2;
    static final long SCRATCH_BYTES = (long) (SLOTS + OUTGOING) * SLOT;

    private static final int CREDIT_INTERVAL = SLOTS / 2;
    private static final int MAX_RECEIVES_PER_CALL = 4;

    private final Fabric fabric;
    private final CallAgreement agreement;
    private final int rank;
    private final int world;
    private final int number;
    private final long mark;
    private final int successor;
    private final int predecessor;
    private final PieceCursor sending = new PieceCursor(REMAINDER);
    private final PieceCursor receiving = new PieceCursor(REMAINDER);
    private final ReduceKernels kernels;
    private final long[] sources = new long[2];
    private final long[] target = new long[1];
    private final long[] noTarget = {};
    private final Completion leftSlot;
    /** Set by {@link #open}. */
    @SuppressWarnings("NullAway.Init")
    private MemoryRegion scratch;
    /** Set by {@link #open}. */
    @SuppressWarnings("NullAway.Init")
    private SymmetricMemory control;
    private long scratchOffset;

    /** Numbers that only grow: pieces that arrived, and of them those processed. */
    private long arrived;
    private long processed;
    /** Pieces sent to slots of the successor, and of them those it has reduced. */
    private long slotsSent;
    private long slotsGranted;
    /** Pieces in this rank's slots that were reduced, and of them those for which a credit was sent. */
    private long reduced;
    private long credited;
    /** Partial sums written to outgoing slots, sent from them, and completely transferred. */
    private long filled;
    private long drained;
    private long released;

    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private SymmetricMemory memory;
    private long offset;
    private int reductions;
    private boolean wide;
    private boolean keepsApart;
    /** The number of puts to the successor when the latest piece was sent. */
    private long lastPut;
    /** How much of the next piece was reduced while it arrived. */
    private long reducedBytes;

    /**
     * Creates a ring.
     *
     * @param ranks of its members, in order; this rank is one of them
     * @param number 0 or 1, which distinguishes two rings of one rank
     */
    Ring(Fabric fabric, int[] ranks, int number, CallAgreement agreement, ReduceKernels kernels) {
        this.fabric = fabric;
        this.agreement = agreement;
        this.number = number;
        this.kernels = kernels;
        rank = Arrays.binarySearch(ranks, fabric.rank());
        world = ranks.length;
        mark = fabric.epoch() << 1 | number;
        successor = ranks[(rank + 1) % world];
        predecessor = ranks[Math.floorMod(rank - 1, world)];
        // Success is ignored: a lost peer needs no values, and its loss fails the collective.
        leftSlot = success -> released++;
    }

    /** Sets the scratch memory, which starts at {@code at}. */
    void open(SymmetricMemory newControl, long at) {
        control = newControl;
        scratch = control.region();
        scratchOffset = at;
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory newMemory, long newOffset) {
        call = newCall;
        memory = newMemory;
        offset = newOffset;
        wide = call.reduces() && world > 2 && ReduceKernels.needsWide(call.dtype(), call.op());
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
        int longest = longestPiece(call.bytes() / world);
        int piece = wide ? longest / 2 : longest;
        int segment = keepsApart ? SEGMENT : 1;
        sending.begin(call.bytes(), world, equal, chunk, 0, steps, piece, segment, !keepsApart);
        receiving.begin(call.bytes(), world, equal, chunk - 1, 0, steps, piece, segment, !keepsApart);
    }

    /** Divides short chunks into several pieces, too, so that one is reduced while the next is in flight. */
    private static int longestPiece(long chunkBytes) {
        long packets = Math.ceilDiv(chunkBytes / PIECES_OF_CHUNK - REMAINDER / PIECES_OF_CHUNK, PACKET);
        return piece(Math.clamp(packets, 1, MAX_PACKETS));
    }

    /** Returns the bytes of a piece that fills some packets: a multiple of 128, so that half of it ends on a line. */
    private static int piece(int packets) {
        return packets * PACKET - HEADERS & -ALIGNMENT;
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

    /** Handles the arrival of a put. */
    void onPut(int from, long immediate) {
        if (from == predecessor && immediate == mark) {
            arrived++;
        }
    }

    /** Handles a credit: the number of pieces that the successor has reduced. */
    void onCredit(long count) {
        slotsGranted = Math.max(slotsGranted, count);
    }

    /** Sends the predecessor a credit if it is due; returns the amount of work done. */
    private int sendCredit() {
        if (reduced - credited < CREDIT_INTERVAL || !agreement.send(predecessor,
                agreement.write(NetworkMessage.CREDIT, reduced << 1 | number, false))) {
            return 0;
        }
        credited = reduced;
        return 1;
    }

    /**
     * Reduces bytes that arrive for the next slot directly from the message, so that they need not be written to the
     * slot. Returns false, so that they are written, if they arrive too early or other pieces must be processed before.
     */
    boolean onWrite(long at, long address, int bytes) {
        if (receiving.isAtEnd() || !agreement.agrees() || receiving.step() >= reductions || keepsApart
                || processed < arrived || at != slot(reduced) + reducedBytes
                || reducedBytes + bytes > receiving.length() || bytes % call.dtype().bytes() != 0) {
            return false;
        }
        reduce(address, bytes);
        reducedBytes += bytes;
        if (reducedBytes == receiving.length()) {
            // onPut counts the piece later.
            advance();
        }
        return true;
    }

    /** Stops accessing elements, whose memory may be closed. */
    void stop() {
        receiving.beginEmpty();
    }

    /**
     * Sends elements to be reduced, although the ranks have not agreed on the call yet: they only reach slots of the
     * successor, which wait there until it has. Returns the amount of work done.
     */
    int sendEarly() {
        return sending.step() == 0 && reductions > 0 ? send() : 0;
    }

    @Override
    public int doWork() {
        int work = send();
        for (int i = 0; i < MAX_RECEIVES_PER_CALL && receive(); i++) {
            work += 1 + send();
        }
        return work + sendCredit();
    }

    private boolean receive() {
        if (receiving.isAtEnd() || processed >= arrived) {
            return false;
        }
        if (receiving.step() < reductions) {
            boolean apart = keepsApart && !isLastReduction();
            if (apart && filled - released >= OUTGOING) {
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
        processed++;
        receiving.next();
    }

    private boolean isLastReduction() {
        return receiving.step() == reductions - 1;
    }

    /** Reduces the next bytes of a piece. */
    private void reduce(long from, long bytes) {
        boolean last = isLastReduction();
        sources[0] = from;
        sources[1] = ownElements() + reducedBytes;
        target[0] = keepsApart && !last ? scratch.memory().address() + outgoing(filled) : sources[1];
        ReduceOp op = call.op() == ReduceOp.AVERAGE && !last ? ReduceOp.SUM : call.op();
        kernels.reduce(call.dtype(), op, sources, target, 0, bytes / call.dtype().bytes(), fabric.world());
    }

    private long ownElements() {
        return memory.address(offset + receiving.offset());
    }

    /** Reduces a piece in the wider type. In step 0 the predecessor sends its elements, later partial sums. */
    private void reduceWide(long slot, boolean apart) {
        int count = (int) (receiving.length() / call.dtype().bytes());
        boolean continues = receiving.step() > 0;
        long partial = apart ? scratch.memory().address() + outgoing(filled) : slot;
        if (continues && apart) {
            ReduceKernels.copy(slot, partial, 2 * receiving.length());
        }
        sources[0] = slot;
        sources[1] = ownElements();
        target[0] = sources[1];
        kernels.reduceWide(call.dtype(), call.op(), continues ? target : sources, continues, partial,
                apart ? noTarget : target, count, fabric.world());
    }

    private int send() {
        int work = 0;
        while (!sending.isAtEnd() && (sending.step() == 0 || receiving.isPast(sending)) && sendPiece()) {
            sending.next();
            work++;
        }
        return work;
    }

    private boolean sendPiece() {
        boolean partial = sending.step() < reductions;
        if (partial ? slotsSent - slotsGranted >= SLOTS : !agreement.isReady()) {
            return false;
        }
        boolean apart = partial && sending.step() > 0 && keepsApart;
        long bytes = apart && wide ? 2 * sending.length() : sending.length();
        MemoryRegion source = apart ? scratch : memory.region();
        long from = apart ? outgoing(drained) : offset + sending.offset();
        RemoteRegion to = (partial ? control : memory).remote(successor);
        Endpoint endpoint = fabric.endpoint(successor);
        if (endpoint == null || to == null) {
            return false;
        }
        long at = partial ? slot(slotsSent) : from;
        if (endpoint.putAndNotify(source, from, to, at, bytes, mark, apart ? leftSlot : null) != Endpoint.OK) {
            return false;
        }
        lastPut = endpoint.putCount();
        slotsSent += partial ? 1 : 0;
        drained += apart ? 1 : 0;
        return true;
    }

    private long slot(long number) {
        return scratchOffset + number % SLOTS * SLOT;
    }

    private long outgoing(long number) {
        return scratchOffset + (SLOTS + number % OUTGOING) * SLOT;
    }

    @Override
    public int awaited() {
        return receiving.isAtEnd() ? successor : predecessor;
    }

    @Override
    public boolean isDone() {
        // What has not left the elements must be sent before they change.
        if (!receiving.isAtEnd() || !sending.isAtEnd()) {
            return false;
        }
        Endpoint endpoint = fabric.endpoint(successor);
        return endpoint == null || endpoint.hasSent(lastPut, memory.region());
    }
}
