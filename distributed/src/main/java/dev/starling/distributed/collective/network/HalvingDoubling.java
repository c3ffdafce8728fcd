package dev.starling.distributed.collective.network;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.Partners;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * All-reduce in few rounds, for sizes that are too large to be gathered and too small for a {@link Ring}. In each of
 * log₂ world rounds a rank exchanges half of the elements for which it is responsible with a partner, and reduces the
 * half that it keeps; then the rounds run backwards and distribute the results. (Rabenseifner, Optimization of
 * collective reduction operations, 2004) If the number of ranks is not a power of two, each of the first few even ranks
 * sends its elements to its odd neighbour before the rounds and receives the results after them. Each element is
 * reduced on one rank, in an order that depends only on the number of ranks, and copied, so all ranks have the same
 * bits.
 *
 * <p>Elements to be reduced go to scratch memory, results directly to their destination. Results arrive only after all
 * ranks have begun and the elements that this rank had sent were reduced. There are two scratch areas, by the parity of
 * the collective's number: no rank begins the collective after the next before all ranks have finished this one.
 */
final class HalvingDoubling implements Algorithm {
    /** Maximum size of a collective of this algorithm, in bytes. */
    static final int MAX_BYTES = 256 << 10;

    private static final int MAX_RANKS = 4096;
    private static final int LINE = 64;
    private static final long AREA = 2 * MAX_BYTES + 64 * LINE;
    static final long SCRATCH_BYTES = 2 * AREA;

    /** Immediate values: the sign, 24 bits of the epoch, 31 of the collective's number, 8 of the round's. */
    private static final int SEQUENCE_SHIFT = 8;
    private static final int EPOCH_SHIFT = 39;
    private static final long SEQUENCE_MASK = (1L << EPOCH_SHIFT - SEQUENCE_SHIFT) - 1;
    private static final long EPOCH_MASK = 0xff_ffff;

    private final Fabric fabric;
    private final CallAgreement agreement;
    private final ReduceKernels kernels;
    private final int rank;
    private final int world;
    private final int powers;
    private final int folded;
    /** This rank's number among those that exchange halves, or -1 if its neighbour takes part in its place. */
    private final int index;
    private final int rounds;
    private final long[][] arrived;
    /** Range of cache lines for which this rank is responsible, before each round. */
    private final int[] begins;
    private final int[] ends;
    private final long[] sources = new long[2];
    private final long[] target = new long[1];
    /** The receiver of each round's elements, {@code null} for none, and the number of puts to it by then. */
    private final @Nullable Endpoint[] receivers;
    private final long[] puts;
    /** Set by {@link #open}. */
    @SuppressWarnings("NullAway.Init")
    private SymmetricMemory scratch;
    private long scratchOffset;

    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private SymmetricMemory memory;
    private long offset;
    private long sequence;
    private int round;
    private boolean sent;

    HalvingDoubling(Fabric fabric, CallAgreement agreement, ReduceKernels kernels) {
        this.fabric = fabric;
        this.agreement = agreement;
        this.kernels = kernels;
        rank = fabric.rank();
        world = fabric.world();
        powers = 31 - Integer.numberOfLeadingZeros(world);
        folded = world - (1 << powers);
        index = Partners.halvingIndex(rank, world);
        rounds = 2 * powers + 2;
        arrived = new long[2][rounds];
        // No collective's number: 0 is one, when the numbers begin again.
        Arrays.stream(arrived).forEach(each -> Arrays.fill(each, -1));
        receivers = new Endpoint[rounds];
        puts = new long[rounds];
        begins = new int[powers + 1];
        ends = new int[powers + 1];
    }

    /** Returns whether a collective uses this algorithm; all ranks come to the same result. */
    static boolean supports(CollectiveCall call, int world) {
        return call.kind() == Kind.ALL_REDUCE && world > 2 && world <= MAX_RANKS && call.bytes() <= MAX_BYTES
                && !ReduceKernels.needsWide(call.dtype(), call.op());
    }

    /** Sets the scratch memory, which starts at {@code at}. */
    void open(SymmetricMemory control, long at) {
        scratch = control;
        scratchOffset = at;
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory newMemory, long newOffset) {
        call = newCall;
        sequence = agreement.sequence() & SEQUENCE_MASK;
        memory = newMemory;
        offset = newOffset;
        ends[0] = (int) ((call.bytes() + LINE - 1) / LINE);
        for (int i = 0; i < powers; i++) {
            int middle = middle(i);
            begins[i + 1] = keepsLow(i) ? begins[i] : middle;
            ends[i + 1] = keepsLow(i) ? middle : ends[i];
        }
        round = 0;
        sent = false;
        Arrays.fill(receivers, null);
    }

    private int middle(int halving) {
        return (begins[halving] + ends[halving]) >>> 1;
    }

    private boolean keepsLow(int halving) {
        return (index & distance(halving)) == 0;
    }

    private int distance(int halving) {
        return 1 << powers - 1 - halving;
    }

    /** Handles the arrival of a put. */
    void onPut(long immediate) {
        int its = (int) (immediate & 0xff);
        if (immediate < 0 && (immediate >>> EPOCH_SHIFT & EPOCH_MASK) == (fabric.epoch() & EPOCH_MASK)
                && its < rounds) {
            long number = immediate >>> SEQUENCE_SHIFT & SEQUENCE_MASK;
            arrived[(int) (number & 1)][its] = number;
        }
    }

    @Override
    public int doWork() {
        int work = 0;
        while (round < rounds && (!sends() || sent || send()) && (!receives() || hasArrived())) {
            if (receives()) {
                reduce();
            }
            round++;
            sent = false;
            work++;
        }
        return work;
    }

    /** Sends the first elements, which only reach scratch memory, although the ranks have not agreed yet. */
    int sendEarly() {
        if (isFolding() && !sends() && !receives()) {
            round++;
        }
        return round <= 1 && isPartial() && sends() && !sent && send() ? 1 : 0;
    }

    private boolean isFolding() {
        return round == 0;
    }

    /** Returns whether this round's elements are to be reduced, so that they go to scratch memory. */
    private boolean isPartial() {
        return isFolding() || isHalving();
    }

    private boolean isUnfolding() {
        return round == rounds - 1;
    }

    private boolean isHalving() {
        return round > 0 && round <= powers;
    }

    /** Returns the number of the halving that this round performs or reverses. */
    private int halving() {
        return isHalving() ? round - 1 : 2 * powers - round;
    }

    private boolean sends() {
        return isFolding() ? index < 0 : isUnfolding() ? isForTwo() : index >= 0;
    }

    private boolean receives() {
        return isFolding() ? isForTwo() : isUnfolding() ? index < 0 : index >= 0;
    }

    private boolean isForTwo() {
        return rank < 2 * folded && index >= 0;
    }

    private int partner() {
        if (isFolding() || isUnfolding()) {
            return rank ^ 1;
        }
        return Partners.halvingRank(index ^ distance(halving()), world);
    }

    private boolean hasArrived() {
        return arrived[(int) (sequence & 1)][round] == sequence;
    }

    private boolean send() {
        int begin = begins[0];
        int end = ends[0];
        if (isHalving()) {
            begin = keepsLow(halving()) ? middle(halving()) : begins[halving()];
            end = keepsLow(halving()) ? ends[halving()] : middle(halving());
        } else if (!isFolding() && !isUnfolding()) {
            begin = begins[halving() + 1];
            end = ends[halving() + 1];
        }
        boolean partial = isPartial();
        Endpoint partner = fabric.endpoint(partner());
        RemoteRegion to = partial ? scratch.remote(partner()) : memory.remote(partner());
        if (partner == null || to == null) {
            return false;
        }
        MemoryRegion source = memory.region();
        long from = offset + (long) begin * LINE;
        long immediate = Long.MIN_VALUE | (fabric.epoch() & EPOCH_MASK) << EPOCH_SHIFT | sequence << SEQUENCE_SHIFT
                | round;
        int code = partner.putAndNotify(source, from, to, partial ? slot() : from,
                Math.min(call.bytes(), (long) end * LINE) - (long) begin * LINE, immediate, null);
        sent = code == Endpoint.OK;
        receivers[round] = partner;
        puts[round] = partner.putCount();
        return sent;
    }

    /** Returns the offset in scratch memory of this round's elements. */
    private long slot() {
        long area = scratchOffset + (sequence & 1) * AREA;
        if (isFolding()) {
            return area;
        }
        return area + 2L * MAX_BYTES - (MAX_BYTES >> halving()) + (long) halving() * LINE;
    }

    /** Reduces the received elements and the own ones in the order of the ranks; results need no further work. */
    private void reduce() {
        if (!isPartial()) {
            return;
        }
        long begin = (long) LINE * (isFolding() ? 0 : begins[halving() + 1]);
        long end = Math.min(call.bytes(), (long) LINE * ends[isFolding() ? 0 : halving() + 1]);
        long own = memory.address(offset + begin);
        long other = scratch.address(slot());
        boolean ownFirst = rank < partner();
        sources[0] = ownFirst ? own : other;
        sources[1] = ownFirst ? other : own;
        target[0] = own;
        ReduceOp op = call.op() == ReduceOp.AVERAGE && round < powers ? ReduceOp.SUM : call.op();
        kernels.reduce(call.dtype(), op, sources, target, 0, (end - begin) / call.dtype().bytes(), world);
    }

    @Override
    public int awaited() {
        return round == rounds ? -1 : partner();
    }

    @Override
    public boolean isDone() {
        return round == rounds && hasSent();
    }

    /** Returns whether all elements have left, so that they may change. */
    private boolean hasSent() {
        for (int r = 0; r < rounds; r++) {
            Endpoint receiver = receivers[r];
            if (receiver != null && !receiver.hasSent(puts[r], memory.region())) {
                return false;
            }
        }
        return true;
    }
}
