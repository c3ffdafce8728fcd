package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.transport.Endpoint;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Collectives between ranks that do not map each other's memory: {@linkplain SmallGather small} ones in messages,
 * all-reduces of medium size by {@linkplain HalvingDoubling exchanging halves}, others around a {@link Ring}, or by
 * {@linkplain Hierarchy host} where that reduces network traffic. Ranks {@linkplain CallAgreement agree} on the call
 * first.
 */
public final class NetworkCollectives implements Algorithm, AutoCloseable {
    private final int world;
    private final CallAgreement agreement;
    private final SmallGather gather;
    private final HalvingDoubling halving;
    private final Ring ring;
    private final Placement hosts;
    /** The ring of the first ranks of all hosts, or {@code null}. */
    private final @Nullable Ring firsts;
    /** {@code null} if each rank is on a host of its own. */
    private @Nullable Hierarchy hierarchy;
    private final NetworkMessage in = new NetworkMessage();
    /** The algorithm of the present collective. */
    private Algorithm chosen;
    private boolean done = true;

    public NetworkCollectives(EpochMessages messages) {
        Fabric fabric = messages.fabric();
        ReduceKernels kernels = new ReduceKernels();
        world = fabric.world();
        agreement = new CallAgreement(messages);
        gather = new SmallGather(fabric.rank(), world, agreement, kernels);
        halving = new HalvingDoubling(fabric, agreement, kernels);
        ring = new Ring(fabric, IntStream.range(0, world).toArray(), 0, agreement, kernels);
        hosts = new Placement(fabric);
        firsts = hosts.areMixed() && hosts.isFirst() ? new Ring(fabric, hosts.firsts(), 1, agreement, kernels) : null;
        chosen = gather;
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

    /** Returns the algorithm of a collective; all ranks come to the same result. */
    private Algorithm choose(CollectiveCall call, SymmetricMemory memory) {
        if (SmallGather.supports(call, world)) {
            return gather;
        }
        if (hierarchy != null && Hierarchy.supports(call, memory)) {
            return hierarchy;
        }
        return HalvingDoubling.supports(call, world) ? halving : ring;
    }

    @Override
    public void begin(CollectiveCall call, SymmetricMemory memory, long offset) {
        done = world == 1;
        if (!done) {
            chosen = choose(call, memory);
            agreement.begin(call, chosen == gather);
            chosen.begin(call, memory, offset);
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
        // The first blocks of a gather contain the call, so they are sent before ranks agree.
        int work = agreement.isAgreed() || chosen == gather ? agreement.doWork() : agree();
        if (agreement.isAgreed() || chosen == gather) {
            work += chosen.doWork();
            done = agreement.isDone() && chosen.isDone();
        }
        return work + (done ? 1 : 0);
    }

    /** Sends the call together with the elements that need not wait until the ranks agree. */
    private int agree() {
        Endpoint successor = agreement.successor();
        if (successor == null) {
            return 0;
        }
        successor.hold();
        try {
            int work = agreement.doWork();
            return work + (chosen == ring ? ring.sendEarly() : chosen == halving ? halving.sendEarly() : 0);
        } finally {
            successor.flush();
        }
    }

    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        if (!in.wrap(buffer, offset, length)) {
            return;
        }
        switch (in.type()) {
            case NetworkMessage.CALL, NetworkMessage.READY -> agreement.onMessage(in);
            case NetworkMessage.BLOCKS -> {
                if (in.number() == 0) {
                    agreement.onMessage(in);
                }
                gather.onMessage(from, in);
            }
            case NetworkMessage.CREDIT -> {
                Ring of = (in.number() & 1) == 0 ? ring : firsts;
                if (of != null) {
                    of.onCredit(in.number() >> 1);
                }
            }
            default -> { }
        }
    }

    /** Handles the arrival of a rank's put. */
    public void onPut(int from, long immediate) {
        ring.onPut(from, immediate);
        halving.onPut(immediate);
        if (firsts != null) {
            firsts.onPut(from, immediate);
        }
    }

    @Override
    public int awaited() {
        return done ? -1 : agreement.isAgreed() ? chosen.awaited() : agreement.predecessor();
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
