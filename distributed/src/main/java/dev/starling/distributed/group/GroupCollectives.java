package dev.starling.distributed.group;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.collective.Engine;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.Exchange;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.transport.AllocatedMemory;
import java.lang.foreign.MemorySegment;
import java.util.Locale;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** The collectives of one epoch, carried out by its {@link Engine}. */
final class GroupCollectives implements Collectives {
    private static final long STAGE_BYTES = 4L << 20;

    private final Membership group;
    private final Engine engine;
    private final int rank;
    /** {@code null} before it is needed. */
    private volatile @Nullable SymmetricBuffer stage;
    /** Stage of an earlier epoch, whose calls may still use it when this epoch starts. */
    private @Nullable SymmetricBuffer outdated;

    /**
     * Creates the collectives of an epoch of a group or sub-group.
     *
     * @param rank of this process in it
     * @param previous those of the last epoch, or {@code null}
     */
    GroupCollectives(Membership group, Engine engine, int rank, @Nullable GroupCollectives previous) {
        this.group = group;
        this.engine = engine;
        this.rank = rank;
        if (previous != null) {
            outdated = previous.stage == null ? previous.outdated : previous.stage;
        }
    }

    /** Releases the stage through which {@link #broadcast} and {@link #allReduce} handle unregistered memory. */
    void close() {
        if (outdated != null) {
            outdated.close();
        }
        if (stage != null) {
            stage.close();
        }
    }

    @Override
    public SymmetricBuffer symmetric(long bytes) {
        SymmetricMemory[] registered = new SymmetricMemory[1];
        // Not under the lock: no heartbeats are sent while a thread holds it.
        AllocatedMemory allocated = group.transport().allocate(bytes);
        group.locked(() -> registered[0] = engine.register(allocated));
        SymmetricMemory memory = registered[0];
        try {
            memory.keys().await(group.config().timeout());
            group.locked(memory::open);
            Objects.requireNonNull(memory.maps()).await(group.config().timeout());
        } catch (RuntimeException e) {
            memory.close();
            throw e;
        }
        memory.settle();
        return memory;
    }

    @Override
    public byte[][] exchange(byte[] own) {
        Exchange[] exchange = new Exchange[1];
        group.locked(() -> exchange[0] = engine.exchange(own, "an exchange of bytes between all ranks"));
        exchange[0].await(group.config().timeout());
        return exchange[0].blobs();
    }

    @Override
    public Work allReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepareAllReduce(buffer, offset, count, type, op, ""));
    }

    @Override
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label) {
        return prepareAllReduce(buffer, offset, count, type, op, label, null);
    }

    @Override
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label, @Nullable BooleanSupplier ready) {
        return engine.prepare(CollectiveCall.allReduce(type, op, count, label), memoryOf(buffer), offset, ready);
    }

    @Override
    public Work reduceScatter(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepare(CollectiveCall.reduceScatter(type, op, count, ""), buffer, offset));
    }

    @Override
    public Work allGather(SymmetricBuffer buffer, long offset, long count, DType type) {
        return started(prepareAllGather(buffer, offset, count, type, ""));
    }

    @Override
    public Work prepareAllGather(SymmetricBuffer buffer, long offset, long count, DType type, String label) {
        return prepare(CollectiveCall.allGather(type, count, label), buffer, offset);
    }

    @Override
    public Work broadcast(SymmetricBuffer buffer, long offset, long count, DType type, int root) {
        return started(prepare(CollectiveCall.broadcast(type, count, root, ""), buffer, offset));
    }

    @Override
    public Work barrier() {
        return started(prepare(CollectiveCall.barrier(""), null, 0));
    }

    @Override
    public Work send(MemorySegment bytes, int to, int tag) {
        return started(prepareSend(bytes, to, tag));
    }

    @Override
    public Work receive(MemorySegment into, int from, int tag) {
        return started(prepareReceive(into, from, tag));
    }

    @Override
    public Work prepareSend(MemorySegment bytes, int to, int tag) {
        return engine.transfer(true, to, tag, bytes);
    }

    @Override
    public Work prepareReceive(MemorySegment into, int from, int tag) {
        return engine.transfer(false, from, tag, into);
    }

    @Override
    public void broadcast(MemorySegment bytes, int root) {
        staged(bytes, DType.U8, rank != root, (count, place) -> CollectiveCall.broadcast(DType.U8, count, root,
                place));
    }

    @Override
    public void allReduce(MemorySegment elements, DType type, ReduceOp op) {
        if (elements.byteSize() % type.bytes() != 0) {
            throw TensorException.argument("all reduce (" + op.name().toLowerCase(Locale.ROOT) + ")",
                    "the size of the memory, " + elements.byteSize() + " bytes, must be a multiple of " + type.bytes()
                    + ", the size of an element of " + type, "pass whole elements");
        }
        staged(elements, type, true, (count, place) -> CollectiveCall.allReduce(type, op, count, place));
    }

    private void staged(MemorySegment bytes, DType type, boolean receives, StagedCall call) {
        if (receives && bytes.isReadOnly()) {
            throw TensorException.argument("collective", "the memory that receives is read-only",
                    "pass writable memory");
        }
        SymmetricBuffer through = stage;
        if (through == null) {
            through = symmetric(STAGE_BYTES);
            stage = through;
            if (outdated != null) {
                outdated.close();
                outdated = null;
            }
        }
        long size = bytes.byteSize();
        // Also without elements, as other ranks may pass some.
        for (long done = 0; done == 0 || done < size; done += STAGE_BYTES) {
            long piece = Math.min(STAGE_BYTES, size - done);
            String place = "bytes " + done + " to " + (done + piece) + " of " + size + " in unregistered memory";
            MemorySegment.copy(bytes, done, through.memory(), 0, piece);
            prepare(call.of(piece / type.bytes(), place), through, 0).run(group.config().timeout());
            if (receives) {
                MemorySegment.copy(through.memory(), 0, bytes, done, piece);
            }
        }
    }

    /** A collective on a piece of unregistered memory. */
    @FunctionalInterface
    private interface StagedCall {
        CollectiveCall of(long count, String place);
    }

    private Work prepare(CollectiveCall call, @Nullable SymmetricBuffer buffer, long offset) {
        return engine.prepare(call, buffer == null ? null : memoryOf(buffer), offset, null);
    }

    private static SymmetricMemory memoryOf(SymmetricBuffer buffer) {
        return (SymmetricMemory) buffer;
    }

    private static Work started(Work work) {
        work.start();
        return work;
    }

    @Override
    public void stop() {
        group.locked(() -> engine.fail(new DistributedException("this rank has stopped taking part in collectives")));
    }
}
