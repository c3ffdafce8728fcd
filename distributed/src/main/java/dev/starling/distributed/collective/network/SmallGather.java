package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Small collectives: every rank gathers the elements of all others in ⌈log₂ world⌉ rounds, and reduces them itself, in
 * the order of ranks. In round i a rank sends the blocks that it has gathered so far to the rank 2^i after it. (Bruck
 * et al., Efficient algorithms for all-to-all communications, 1997) Without elements this is a barrier. (Hensgen,
 * Finkel and Manber, Two algorithms for barrier synchronization, 1988)
 *
 * <p>There are two areas of blocks, used alternately, by the parity of the collective's number. No rank begins the
 * collective after the next before all ranks have begun the next, and have thus finished this one.
 */
final class SmallGather implements Algorithm, AutoCloseable {
    /** Maximum payload of a message, for any wire. */
    static final int MAX_PAYLOAD = 24 << 10;

    private static final int MAX_BYTES = 16 << 10;

    private final int rank;
    private final int world;
    private final int rounds;
    private final CallAgreement agreement;
    private final ReduceKernels kernels;
    private final Arena arena = Arena.ofShared();
    private final UnsafeBuffer[] areas = new UnsafeBuffer[2];
    private final long[][] arrived;
    private final long[][] hashes;
    private final long[] sources;
    private final long[] target = new long[1];
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    /** Address of this rank's elements. */
    private long own;
    private long sequence;
    private int parity;
    private int bytes;
    private int round;
    private boolean sent;

    SmallGather(int rank, int world, CallAgreement agreement, ReduceKernels kernels) {
        this.rank = rank;
        this.world = world;
        this.agreement = agreement;
        this.kernels = kernels;
        rounds = 32 - Integer.numberOfLeadingZeros(world - 1);
        arrived = new long[2][rounds];
        hashes = new long[2][rounds];
        sources = new long[world];
        for (int i = 0; i < areas.length; i++) {
            MemorySegment area = arena.allocate((long) world * maxBytes(world), 64);
            areas[i] = new UnsafeBuffer(area.address(), (int) area.byteSize());
        }
    }

    private static int maxBytes(int world) {
        return Math.min(MAX_BYTES, MAX_PAYLOAD / Math.max(1, world / 2) / 64 * 64);
    }

    /** Returns whether a collective uses this algorithm; all ranks come to the same result. */
    static boolean supports(CollectiveCall call, int world) {
        return blockBytes(call, world) <= maxBytes(world);
    }

    private static long blockBytes(CollectiveCall call, int world) {
        return call.kind() == CollectiveCall.Kind.ALL_GATHER ? call.bytes() / world : call.bytes();
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory memory, long offset) {
        call = newCall;
        own = memory.address(offset);
        sequence = agreement.sequence();
        parity = (int) (sequence & 1);
        bytes = (int) blockBytes(newCall, world);
        round = 0;
        sent = false;
        if (bytes > 0) {
            long from = call.kind() == CollectiveCall.Kind.ALL_GATHER ? own + (long) rank * bytes : own;
            ReduceKernels.copy(from, areas[parity].addressOffset(), bytes);
        }
    }

    @Override
    public int doWork() {
        int work = 0;
        while (round < rounds) {
            if (!sent) {
                sent = send();
                work += sent ? 1 : 0;
            }
            if (!sent || !hasArrived()) {
                return work;
            }
            round++;
            sent = false;
            if (round == rounds) {
                finish();
            }
        }
        return work;
    }

    private boolean send() {
        int at = agreement.write(NetworkMessage.BLOCKS, round, round == 0);
        int length = blocks(round) * bytes;
        agreement.out().putBytes(at, areas[parity], 0, length);
        return agreement.send(to(), at + length);
    }

    /** Returns the receiver of this round's message. */
    private int to() {
        return (rank + (1 << round)) % world;
    }

    private int blocks(int of) {
        return Math.min(1 << of, world - (1 << of));
    }

    /** Handles a message of this collective or the next; drops messages that fit neither. */
    void onMessage(int from, NetworkMessage message) {
        long its = message.number();
        if (its < 0 || its >= rounds || from != Math.floorMod(rank - (1 << its), world)
                || message.payloadLength() % blocks((int) its) != 0) {
            return;
        }
        int place = (int) (message.sequence() & 1);
        int at = message.payloadLength() / blocks((int) its) << its;
        if (at + message.payloadLength() <= areas[place].capacity()) {
            areas[place].putBytes(at, message.buffer(), message.payload(), message.payloadLength());
            hashes[place][(int) its] = message.hash();
            arrived[place][(int) its] = message.sequence();
        }
    }

    private boolean hasArrived() {
        return arrived[parity][round] == sequence && hashes[parity][round] == call.hash();
    }

    @Override
    public boolean isDone() {
        return round == rounds;
    }

    @Override
    public int awaited() {
        if (round < rounds && !sent) {
            // The receiver cannot finish without this message, so a receiver that has left is missed.
            return to();
        }
        return round < rounds && !hasArrived() ? Math.floorMod(rank - (1 << round), world) : -1;
    }

    /** Computes the result into the own elements. */
    private void finish() {
        if (bytes == 0) {
            return;
        }
        for (int back = 0; back < world; back++) {
            sources[Math.floorMod(rank - back, world)] = areas[parity].addressOffset() + (long) back * bytes;
        }
        switch (call.kind()) {
            case ALL_REDUCE -> reduce(0, call.count());
            case REDUCE_SCATTER -> reduce((long) bytes / world * rank, call.count() / world);
            case ALL_GATHER -> {
                for (int r = 0; r < world; r++) {
                    ReduceKernels.copy(sources[r], own + (long) r * bytes, bytes);
                }
            }
            case BROADCAST -> ReduceKernels.copy(sources[call.root()], own, bytes);
            case BARRIER -> { }
        }
    }

    private void reduce(long offset, long count) {
        target[0] = own;
        kernels.reduce(call.dtype(), call.op(), sources, target, offset, count);
    }

    @Override
    public void close() {
        arena.close();
    }
}
