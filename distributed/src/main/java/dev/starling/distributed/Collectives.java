package dev.starling.distributed;

import dev.starling.distributed.collective.Engine;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.call.Task;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Locale;
import java.util.function.BooleanSupplier;

/**
 * Collective operations of the members of one epoch, and transfers between two of them. All ranks must call the same
 * collectives in the same order; otherwise all get a {@link CollectiveMismatchException} that names two differing
 * calls. Results have the same bits on every rank and in every run. Ranks that map each other's memory compute in it
 * directly; others send pieces around a ring or, if there is little to send, gather all elements in rounds of doubled
 * distance.
 *
 * <p>A returned {@link Work} is already started, unless the method's name begins with {@code prepare}. It fails if a
 * member is lost. Methods that wait use {@link GroupConfig#timeout}, and throw what {@link Work#await} throws. Offsets
 * are in bytes and multiples of 64; counts are in elements. Elements that do not fit into the buffer cause a
 * {@link TensorException}.
 */
public final class Collectives {
    private static final long STAGE_BYTES = 4L << 20;

    private final Group group;
    private final Engine engine;
    private volatile SymmetricBuffer stage;
    /** Stage of an earlier epoch, whose calls may still use it when this epoch starts. */
    private SymmetricBuffer outdated;

    /** Creates the collectives of an epoch; {@code previous} are those of the last one, or {@code null}. */
    Collectives(Group group, Engine engine, Collectives previous) {
        this.group = group;
        this.engine = engine;
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

    Engine engine() {
        return engine;
    }

    /** Registers memory of the same size on every rank. The caller closes it. Collective; waits. */
    public SymmetricBuffer symmetric(long bytes) {
        SymmetricMemory[] registered = new SymmetricMemory[1];
        group.locked(() -> registered[0] = engine.register(bytes));
        SymmetricBuffer buffer = new SymmetricBuffer(group, registered[0]);
        try {
            await(registered[0].keys(), "the keys of a buffer of " + bytes + " bytes");
            group.locked(registered[0]::open);
            await(registered[0].mapped(), "a buffer of " + bytes + " bytes to be mapped");
        } catch (RuntimeException e) {
            buffer.close();
            throw e;
        }
        registered[0].settle();
        return buffer;
    }

    /** Returns the bytes that each rank passes, by rank: at most 16 KiB, lengths may differ. Collective; waits. */
    public byte[][] exchange(byte[] own) {
        Task[] task = new Task[1];
        group.locked(() -> task[0] = engine.exchange(own));
        await(task[0], "an exchange of bytes between all ranks");
        return task[0].blobs();
    }

    /** Reduces {@code count} elements of all ranks, in place; all ranks get the result. Collective. */
    public Work allReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepareAllReduce(buffer, offset, count, type, op, ""));
    }

    /** Prepares an all-reduce that can be started repeatedly; {@code label} names its purpose in error messages. */
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label) {
        return prepareAllReduce(buffer, offset, count, type, op, label, null);
    }

    /**
     * Prepares an all-reduce of elements that arrive in their memory asynchronously. Once started, the all-reduce waits
     * until they are ready.
     *
     * @param ready returns whether the elements have arrived. The thread that works for the group calls it repeatedly,
     *     so it must be quick and must not block. An exception from it fails all pending collectives, on every rank
     */
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label, BooleanSupplier ready) {
        return new Prepared(engine.prepare(CollectiveCall.allReduce(type, op, count, label), buffer.symmetric(),
                offset, ready));
    }

    /**
     * Reduces {@code count} elements, a multiple of the world size. Rank r gets chunk r of the result, in place; the
     * contents of the other chunks are undefined afterwards. Collective.
     */
    public Work reduceScatter(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepare(CollectiveCall.reduceScatter(type, op, count, ""), buffer, offset));
    }

    /** Gathers {@code count} elements in all, a multiple of the world size; rank r provides chunk r. Collective. */
    public Work allGather(SymmetricBuffer buffer, long offset, long count, DType type) {
        return started(prepare(CollectiveCall.allGather(type, count, ""), buffer, offset));
    }

    /** Copies the root's elements to all ranks. Collective. */
    public Work broadcast(SymmetricBuffer buffer, long offset, long count, DType type, int root) {
        return started(prepare(CollectiveCall.broadcast(type, count, root, ""), buffer, offset));
    }

    /** Returns work that is done when all ranks have called the barrier. Collective. */
    public Work barrier() {
        return started(prepare(CollectiveCall.barrier(""), null, 0));
    }

    /**
     * Sends bytes to another rank, which must receive as many with the same tag. Transfers progress independently of
     * collectives. Transfers with the same tag are received in the order in which they are sent.
     *
     * @param bytes readable by all threads; the caller must not change them until the work is done
     */
    public Work send(MemorySegment bytes, int to, int tag) {
        return started(prepareSend(bytes, to, tag));
    }

    /** Receives the bytes that another rank sends with the same tag, as many as {@code into} holds; {@link #send}. */
    public Work receive(MemorySegment into, int from, int tag) {
        return started(prepareReceive(into, from, tag));
    }

    /** Prepares a {@link #send} that can be started repeatedly. */
    public Work prepareSend(MemorySegment bytes, int to, int tag) {
        return new Prepared(engine.transfer(true, to, tag, bytes));
    }

    /** Prepares a {@link #receive} that can be started repeatedly. */
    public Work prepareReceive(MemorySegment into, int from, int tag) {
        return new Prepared(engine.transfer(false, from, tag, into));
    }

    /** Copies the root's bytes, in any memory, to all ranks; the size is the same on each. Collective; waits. */
    public void broadcast(MemorySegment bytes, int root) {
        staged(bytes, DType.U8, (count) -> CollectiveCall.broadcast(DType.U8, count, root, "staged"));
    }

    /**
     * Reduces elements of all ranks, in any memory, in place. Collective; waits.
     *
     * @throws TensorException if the size of the memory is not a multiple of that of an element; nothing is reduced
     *     then
     */
    public void allReduce(MemorySegment elements, DType type, ReduceOp op) {
        if (elements.byteSize() % type.bytes() != 0) {
            throw TensorException.argument("all reduce (" + op.name().toLowerCase(Locale.ROOT) + ")",
                    "the size of the memory, " + elements.byteSize() + " bytes, must be a multiple of " + type.bytes()
                    + ", the size of an element of " + type, "pass whole elements");
        }
        staged(elements, type, (count) -> CollectiveCall.allReduce(type, op, count, "staged"));
    }

    private interface Call {
        CollectiveCall of(long count);
    }

    private void staged(MemorySegment bytes, DType type, Call call) {
        if (stage == null) {
            stage = symmetric(STAGE_BYTES);
            if (outdated != null) {
                outdated.close();
                outdated = null;
            }
        }
        for (long done = 0; done < bytes.byteSize(); done += STAGE_BYTES) {
            long piece = Math.min(STAGE_BYTES, bytes.byteSize() - done);
            MemorySegment.copy(bytes, done, stage.memory(), 0, piece);
            prepare(call.of(piece / type.bytes()), stage, 0).run(group.config().timeout());
            MemorySegment.copy(stage.memory(), 0, bytes, done, piece);
        }
    }

    private Prepared prepare(CollectiveCall call, SymmetricBuffer buffer, long offset) {
        return new Prepared(engine.prepare(call, buffer == null ? null : buffer.symmetric(), offset, null));
    }

    private static Prepared started(Work work) {
        work.start();
        return (Prepared) work;
    }

    /**
     * Fails all pending and future collectives of this rank for the rest of the epoch, without notifying the other
     * ranks, which detect it when this process leaves. After the call no collective accesses memory any more.
     */
    public void stop() {
        group.locked(() -> engine.fail(new DistributedException("this rank has stopped taking part in collectives")));
    }

    private void await(Task task, String what) {
        new Prepared(task).await(group.config().timeout(), what);
    }

    /** The user's handle of an engine's task. */
    private final class Prepared implements Work {
        private final Task task;
        private final Runnable starting;
        private final BooleanSupplier done;

        Prepared(Task task) {
            this.task = task;
            starting = () -> engine.start(task);
            done = task::isDone;
        }

        @Override
        public void start() {
            group.check();
            group.locked(starting);
            group.wake();
        }

        @Override
        public void run(Duration atMost) {
            group.check();
            group.locked(starting);
            await(atMost);
        }

        @Override
        public boolean isDone() {
            return task.isDone();
        }

        @Override
        public void await(Duration atMost) {
            await(atMost, null);
        }

        void await(Duration atMost, String what) {
            if (!group.await(done, atMost)) {
                DistributedException timeout = new DistributedException("waited " + atMost + " for "
                        + (what == null ? task : what) + "; " + engine.describeAwaited(task));
                group.locked(() -> engine.abort(timeout));
            }
            RuntimeException failure = task.failure();
            if (failure != null) {
                throw failure;
            }
        }
    }
}
