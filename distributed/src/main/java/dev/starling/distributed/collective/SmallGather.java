package dev.starling.distributed.collective;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Small collectives: every rank gets the elements of all others in ⌈log₂ world⌉ rounds, and reduces them itself, in
 * the order of ranks. In round i a rank sends to the one 2^i behind it what it has gathered so far. (Bruck et al.,
 * Efficient algorithms for all-to-all communications, 1997) Without elements this is a barrier. (Hensgen, Finkel and
 * Manber, Two algorithms for barrier synchronization, 1988)
 *
 * <p>Blocks lie in two areas in turns, by the parity of the collective's number: nobody begins the one after the next
 * before all have begun the next, and thus are done with this one.
 */
final class SmallGather implements AutoCloseable {
    /** Most bytes in a message, whatever the wire. */
    static final int MAX_PAYLOAD = 24 << 10;

    private static final int MAX_BYTES = 16 << 10;

    private final int rank;
    private final int world;
    private final int rounds;
    private final ReduceKernels kernels;
    private final Arena arena = Arena.ofShared();
    private final UnsafeBuffer[] areas = new UnsafeBuffer[2];
    private final long[][] arrived;
    private final long[][] hashes;
    private final long[] sources;
    private final long[] target = new long[1];
    private CollectiveCall call;
    private long sequence;
    private int parity;
    private int bytes;
    private int round;
    private boolean sent;

    SmallGather(int rank, int world, ReduceKernels kernels) {
        this.rank = rank;
        this.world = world;
        this.kernels = kernels;
        rounds = 32 - Integer.numberOfLeadingZeros(world - 1);
        arrived = new long[2][rounds];
        hashes = new long[2][rounds];
        sources = new long[world];
        for (int i = 0; i < areas.length; i++) {
            MemorySegment area = arena.allocate((long) world * mostBytes(world), 64);
            areas[i] = new UnsafeBuffer(area.address(), (int) area.byteSize());
        }
    }

    private static int mostBytes(int world) {
        return Math.min(MAX_BYTES, MAX_PAYLOAD / Math.max(1, world / 2) / 64 * 64);
    }

    /** Returns whether a collective is small; all ranks agree. */
    static boolean takes(CollectiveCall call, int world) {
        return blockBytes(call, world) <= mostBytes(world);
    }

    private static long blockBytes(CollectiveCall call, int world) {
        return call.kind() == CollectiveCall.Kind.ALL_GATHER ? call.bytes() / world : call.bytes();
    }

    void begin(CollectiveCall newCall, long newSequence, long own) {
        call = newCall;
        sequence = newSequence;
        parity = (int) (newSequence & 1);
        bytes = (int) blockBytes(newCall, world);
        round = 0;
        sent = false;
        if (bytes > 0) {
            long from = call.kind() == CollectiveCall.Kind.ALL_GATHER ? own + (long) rank * bytes : own;
            ReduceKernels.copy(from, areas[parity].addressOffset(), bytes);
        }
    }

    /** Returns whether this round's message has yet to be sent. */
    boolean isToSend() {
        return round < rounds && !sent;
    }

    int round() {
        return round;
    }

    /** Returns who gets this round's message. */
    int to() {
        return (rank + (1 << round)) % world;
    }

    /** Writes this round's message; returns its length. */
    int write(UnsafeBuffer message, int at) {
        int length = blocks(round) * bytes;
        message.putBytes(at, areas[parity], 0, length);
        return length;
    }

    void sent() {
        sent = true;
    }

    private int blocks(int of) {
        return Math.min(1 << of, world - (1 << of));
    }

    /** Takes a message of this collective or the next; drops what fits neither. */
    void take(int from, long itsSequence, long hash, int itsRound, DirectBuffer buffer, int offset, int length) {
        if (itsRound < 0 || itsRound >= rounds || from != Math.floorMod(rank - (1 << itsRound), world)
                || length % blocks(itsRound) != 0) {
            return;
        }
        int place = (int) (itsSequence & 1);
        int at = length / blocks(itsRound) << itsRound;
        if (at + length <= areas[place].capacity()) {
            areas[place].putBytes(at, buffer, offset, length);
            hashes[place][itsRound] = hash;
            arrived[place][itsRound] = itsSequence;
        }
    }

    /** Goes on to the next round if this one's message has come; returns whether it did. */
    boolean advance() {
        if (round < rounds && sent && hasCome()) {
            round++;
            sent = false;
            return true;
        }
        return false;
    }

    private boolean hasCome() {
        return arrived[parity][round] == sequence && hashes[parity][round] == call.hash();
    }

    boolean isGathered() {
        return round == rounds;
    }

    /** Returns who is waited for, or -1. */
    int awaited() {
        if (isToSend()) {
            // It cannot be done without what it has yet to get from here.
            return to();
        }
        return round < rounds && !hasCome() ? Math.floorMod(rank - (1 << round), world) : -1;
    }

    /** Computes the result where it belongs. */
    void finish(long own) {
        if (bytes == 0) {
            return;
        }
        for (int back = 0; back < world; back++) {
            sources[Math.floorMod(rank - back, world)] = areas[parity].addressOffset() + (long) back * bytes;
        }
        switch (call.kind()) {
            case ALL_REDUCE -> reduce(own, 0, call.count());
            case REDUCE_SCATTER -> reduce(own, (long) bytes / world * rank, call.count() / world);
            case ALL_GATHER -> {
                for (int r = 0; r < world; r++) {
                    ReduceKernels.copy(sources[r], own + (long) r * bytes, bytes);
                }
            }
            case BROADCAST -> ReduceKernels.copy(sources[call.root()], own, bytes);
            case BARRIER -> { }
        }
    }

    private void reduce(long own, long offset, long count) {
        target[0] = own;
        kernels.reduce(call.dtype(), call.op(), sources, target, offset, count);
    }

    @Override
    public void close() {
        arena.close();
    }
}
