package dev.starling.distributed.collective.network;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.transport.Endpoint;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Collectives between ranks that do not map each other's memory: {@linkplain SmallGather small} ones in messages,
 * all-reduces of medium size by {@linkplain HalvingDoubling exchanging halves}, others around a {@link Ring}, or by
 * {@linkplain Hierarchy host} where that reduces network traffic.
 *
 * <p><b>How mismatches are detected.</b> In each collective every rank sends its call to its successor, and finishes
 * only when its predecessor has sent the same call. If ranks disagree, two of them are neighbours. A collective
 * finishes on any rank only after all ranks have begun it, so no rank is more than one collective ahead of another.
 *
 * <p>Messages: type i32, length of the text i32, sequence i64, hash i64, number i64, text, payload.
 */
public final class NetworkCollectives implements Algorithm {
    private static final int CALL = 1;
    private static final int READY = 2;
    private static final int BLOCKS = 3;
    private static final int CREDIT = 4;
    private static final int BODY = 32;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private final EpochMessages messages;
    private final Fabric fabric;
    private final int rank;
    private final int world;
    private final int successor;
    private final int predecessor;
    private final ReduceKernels kernels = new ReduceKernels();
    private final SmallGather gather;
    private final HalvingDoubling halving;
    private final Ring ring;
    private final Placement hosts;
    /** The ring of the first ranks of all hosts, or {@code null}. */
    private final Ring firsts;
    private Hierarchy hierarchy;
    private final PeerCalls calls = new PeerCalls();
    private final PeerCalls readies = new PeerCalls();
    private final UnsafeBuffer out = new UnsafeBuffer(ByteBuffer.allocateDirect(
            EpochMessages.HEADER + BODY + CollectiveCall.MAX_TEXT + SmallGather.MAX_PAYLOAD));

    private CollectiveCall call;
    private long own;
    private long sequence;
    /** The algorithm of the present collective: one of these, or the ring. */
    private boolean small;
    private boolean hosted;
    private boolean halved;
    /** Whether the successor has been sent the call. */
    private boolean callSent;
    /** Whether the predecessor has sent the same call. */
    private boolean agreed;
    private boolean readySent;
    private boolean done = true;

    public NetworkCollectives(EpochMessages messages) {
        this.messages = messages;
        fabric = messages.fabric();
        rank = fabric.rank();
        world = fabric.world();
        successor = (rank + 1) % world;
        predecessor = Math.floorMod(rank - 1, world);
        gather = new SmallGather(rank, world, kernels);
        halving = new HalvingDoubling(fabric, kernels);
        ring = new Ring(fabric, IntStream.range(0, world).toArray(), 0, kernels);
        hosts = new Placement(fabric);
        firsts = hosts.areMixed() && hosts.isFirst() ? new Ring(fabric, hosts.firsts(), 1, kernels) : null;
    }

    /** Returns the size of the scratch memory on each rank, in bytes. */
    public long scratchBytes() {
        return Ring.SCRATCH_BYTES * (hosts.areMixed() ? 2 : 1) + HalvingDoubling.SCRATCH_BYTES;
    }

    /** Sets the scratch memory, which starts at {@code offset}. */
    public void open(SymmetricMemory control, long offset) {
        halving.open(control, offset);
        long rings = offset + HalvingDoubling.SCRATCH_BYTES;
        ring.open(control, rings);
        control.region().onWrite(ring::onWrite);
        if (firsts != null) {
            firsts.open(control, rings + Ring.SCRATCH_BYTES);
        }
        if (hosts.areMixed() && control.isHosted()) {
            hierarchy = new Hierarchy(hosts, control, firsts);
        }
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory memory, long offset) {
        call = newCall;
        own = memory == null ? 0 : memory.own().address() + offset;
        sequence++;
        small = SmallGather.supports(call, world);
        // A host's partial result has the elements' type. Sums that must not be rounded early therefore use the ring.
        hosted = !small && hierarchy != null && call.kind() == Kind.ALL_REDUCE && memory.isHosted()
                && !ReduceKernels.needsWide(call.dtype(), call.op());
        halved = !small && !hosted && HalvingDoubling.supports(call, world);
        done = world == 1;
        callSent = done;
        agreed = done;
        // A rank that would overwrite elements of its successor first waits for the successor's READY.
        readySent = small || call.kind() == Kind.ALL_REDUCE || call.kind() == Kind.REDUCE_SCATTER
                || call.kind() == Kind.BROADCAST && rank == call.root();
        if (done) {
            return;
        }
        if (small) {
            gather.begin(call, sequence, own);
        } else if (hosted) {
            hierarchy.begin(call, memory, offset);
        } else if (halved) {
            halving.begin(call, sequence, memory, offset);
        } else {
            ring.begin(call, memory, offset);
        }
    }

    @Override
    public boolean isDone() {
        return done;
    }

    @Override
    public int doWork() {
        if (done) {
            return 0;
        }
        if (!agreed) {
            agreed = hasSameCall(calls, predecessor);
        }
        int work = small ? gather() : large();
        done = agreed && (small ? gather.isGathered() : callSent && readySent
                && (hosted ? hierarchy.isDone() : halved ? halving.isDone() : ring.isDone()));
        if (done && small) {
            gather.finish(own);
        }
        return work + (done ? 1 : 0);
    }

    private boolean hasSameCall(PeerCalls from, int peer) {
        if (!from.has(sequence)) {
            return false;
        }
        if (from.hash(sequence) != call.hash()) {
            throw new CollectiveMismatchException(sequence, rank, call.toString(), peer, from.text(sequence));
        }
        return true;
    }

    private int gather() {
        int work = 0;
        do {
            if (gather.isToSend()) {
                boolean first = gather.round() == 0;
                int length = write(BLOCKS, gather.round(), first);
                length += gather.write(out, length);
                if (messages.send(gather.to(), out, 0, length) != Endpoint.OK) {
                    return work;
                }
                gather.sent();
                work++;
            }
        } while (gather.advance());
        return work;
    }

    private int large() {
        int work = 0;
        if (!callSent) {
            callSent = messages.send(successor, out, 0, write(CALL, 0, true)) == Endpoint.OK;
            work += callSent ? 1 : 0;
        }
        boolean needsReady = call.kind() == Kind.ALL_GATHER || call.kind() == Kind.BROADCAST;
        boolean ready = !needsReady || hasSameCall(readies, successor);
        if (!readySent && (ready || call.kind() == Kind.ALL_GATHER || successor == call.root())) {
            readySent = messages.send(predecessor, out, 0, write(READY, 0, true)) == Endpoint.OK;
            work += readySent ? 1 : 0;
        }
        if (agreed && hosted) {
            work += hierarchy.doWork(call) + (firsts == null ? 0 : sendCredit(firsts, 1));
        } else if (agreed && halved) {
            work += halving.doWork();
        } else if (agreed) {
            work += ring.doWork(ready) + sendCredit(ring, 0);
        }
        return work;
    }

    private int sendCredit(Ring of, int number) {
        long count = of.dueCredit();
        if (count < 0 || messages.send(of.predecessor(), out, 0, write(CREDIT, count << 1 | number, false))
                != Endpoint.OK) {
            return 0;
        }
        of.onCreditSent(count);
        return 1;
    }

    /** Writes a message without its payload; returns its length so far. */
    private int write(int type, long number, boolean withText) {
        messages.header(out, EpochMessages.NETWORK);
        int at = EpochMessages.HEADER;
        byte[] text = call.textBytes();
        int length = withText ? text.length : 0;
        out.putInt(at, type, ORDER);
        out.putInt(at + 4, length, ORDER);
        out.putLong(at + 8, sequence, ORDER);
        out.putLong(at + 16, call.hash(), ORDER);
        out.putLong(at + 24, number, ORDER);
        out.putBytes(at + BODY, text, 0, length);
        return at + BODY + length;
    }

    @Override
    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        if (length < BODY) {
            return;
        }
        int textLength = buffer.getInt(offset + 4, ORDER);
        if (textLength < 0 || textLength > Math.min(length - BODY, CollectiveCall.MAX_TEXT)) {
            return;
        }
        long itsSequence = buffer.getLong(offset + 8, ORDER);
        long hash = buffer.getLong(offset + 16, ORDER);
        long number = buffer.getLong(offset + 24, ORDER);
        int text = offset + BODY;
        switch (buffer.getInt(offset, ORDER)) {
            case CALL -> calls.store(itsSequence, hash, buffer, text, textLength);
            case READY -> readies.store(itsSequence, hash, buffer, text, textLength);
            case BLOCKS -> {
                if (number == 0) {
                    calls.store(itsSequence, hash, buffer, text, textLength);
                }
                gather.onMessage(from, itsSequence, hash, (int) number, buffer, text + textLength,
                        length - BODY - textLength);
            }
            case CREDIT -> {
                Ring of = (number & 1) == 0 ? ring : firsts;
                if (of != null) {
                    of.onCredit(number >> 1);
                }
            }
            default -> { }
        }
    }

    @Override
    public void onPut(int from, long immediate) {
        ring.onPut(from, immediate);
        halving.onPut(immediate);
        if (firsts != null) {
            firsts.onPut(from, immediate);
        }
    }

    @Override
    public int awaited() {
        if (done) {
            return -1;
        }
        if (!agreed) {
            return predecessor;
        }
        if (small) {
            return gather.awaited();
        }
        return hosted ? hierarchy.awaited() : halved ? halving.awaited() : ring.awaited();
    }

    /** Stops accessing the elements of the present collective, which has failed: their memory may be closed. */
    public void stop() {
        ring.stop();
    }

    @Override
    public void close() {
        gather.close();
    }
}
