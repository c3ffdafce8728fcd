package dev.starling.distributed;

import dev.starling.distributed.collective.CollectiveCall;
import dev.starling.distributed.collective.Engine;
import dev.starling.distributed.collective.SymmetricMemory;
import dev.starling.distributed.collective.Task;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Locale;
import java.util.function.BooleanSupplier;

/**
 * What the members of an epoch do together. Every rank calls for the same, in the same order; if one does not, all
 * learn of it by a {@link CollectiveMismatchException} that names both calls. Results have the same bits on every rank,
 * and the same from run to run. Ranks that map each other's memory compute in it directly; others send pieces around a
 * ring or, when there is little to send, gather it all in rounds of doubled distance.
 *
 * <p>A {@link Work} that is returned has begun, unless the method's name begins with {@code prepare}; it fails if a
 * member is lost. Methods that wait do so for {@link GroupConfig#patience}, and throw what {@link Work#await} throws.
 * Offsets are in bytes and multiples of 64; counts are in elements; what does not fit in the buffer is an
 * {@link TensorException}.
 */
public final class Collectives {
    private static final long STAGE = 4L << 20;

    private final Group group;
    private final Engine engine;
    private volatile SymmetricBuffer stage;
    /** What an epoch before has left, whose calls may not all have returned when this one begins. */
    private SymmetricBuffer outdated;

    /** Begins those of an epoch; {@code before} are those of the last one, or {@code null}. */
    Collectives(Group group, Engine engine, Collectives before) {
        this.group = group;
        this.engine = engine;
        if (before != null) {
            outdated = before.stage == null ? before.outdated : before.stage;
        }
    }

    /** Gives back memory that was made for {@link #broadcast} and {@link #allReduce} of any memory. */
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

    /** Makes registered memory, of as many bytes on every rank, which the caller closes. Collective; waits. */
    public SymmetricBuffer symmetric(long bytes) {
        SymmetricMemory[] made = new SymmetricMemory[1];
        group.locked(() -> made[0] = engine.register(bytes));
        SymmetricBuffer buffer = new SymmetricBuffer(group, made[0]);
        try {
            await(made[0].keys(), "the keys of a buffer of " + bytes + " bytes");
            group.locked(made[0]::open);
            await(made[0].mapped(), "a buffer of " + bytes + " bytes to be mapped");
        } catch (RuntimeException e) {
            buffer.close();
            throw e;
        }
        made[0].settle();
        return buffer;
    }

    /** Returns what each rank has to say, by rank; at most 16 KiB each, of any length. Collective; waits. */
    public byte[][] exchange(byte[] own) {
        Task[] task = new Task[1];
        group.locked(() -> task[0] = engine.exchange(own));
        await(task[0], "what each rank has to say");
        return task[0].blobs();
    }

    /** Reduces {@code count} elements of all ranks, in place; all get the result. Collective. */
    public Work allReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepareAllReduce(buffer, offset, count, type, op, ""));
    }

    /** Prepares an all-reduce for being started again and again; {@code label} says what for, in error messages. */
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label) {
        return prepareAllReduce(buffer, offset, count, type, op, label, null);
    }

    /**
     * Prepares an all-reduce of elements that come to their memory by themselves: once started, it begins when they are
     * there.
     *
     * @param ready tells whether they are; asked again and again by whoever works for the group, so that it must be
     *     quick and not wait. What it throws ends all that is under way, on every rank
     */
    public Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label, BooleanSupplier ready) {
        return new Prepared(engine.prepare(CollectiveCall.allReduce(type, op, count, label), buffer.symmetric(),
                offset, ready));
    }

    /**
     * Reduces {@code count} elements, a multiple of the world size. The r-th part of the result is rank r's, where it
     * lies; what the other parts hold then is not defined. Collective.
     */
    public Work reduceScatter(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepare(CollectiveCall.reduceScatter(type, op, count, ""), buffer, offset));
    }

    /** Gathers {@code count} elements in all, a multiple of the world size: rank r gives the r-th part. Collective. */
    public Work allGather(SymmetricBuffer buffer, long offset, long count, DType type) {
        return started(prepare(CollectiveCall.allGather(type, count, ""), buffer, offset));
    }

    /** Gives all ranks the elements of one, the root. Collective. */
    public Work broadcast(SymmetricBuffer buffer, long offset, long count, DType type, int root) {
        return started(prepare(CollectiveCall.broadcast(type, count, root, ""), buffer, offset));
    }

    /** Is done when all ranks have come here. Collective. */
    public Work barrier() {
        return started(prepare(CollectiveCall.barrier(""), null, 0));
    }

    /**
     * Sends bytes to another rank, which receives as many with the same tag. Goes on independently of collectives; what
     * has the same tag is received in the order in which it is sent.
     *
     * @param bytes that all threads may read; to be left alone until it is done
     */
    public Work send(MemorySegment bytes, int to, int tag) {
        return started(prepareSend(bytes, to, tag));
    }

    /** Receives bytes from another rank, as many as it sends with the same tag; see {@link #send}. */
    public Work receive(MemorySegment into, int from, int tag) {
        return started(prepareReceive(into, from, tag));
    }

    /** Prepares {@link #send} for being started again and again. */
    public Work prepareSend(MemorySegment bytes, int to, int tag) {
        return new Prepared(engine.transfer(true, to, tag, bytes));
    }

    /** Prepares {@link #receive} for being started again and again. */
    public Work prepareReceive(MemorySegment into, int from, int tag) {
        return new Prepared(engine.transfer(false, from, tag, into));
    }

    /** Gives all ranks the bytes of one, the root, wherever they lie; as many on each. Collective; waits. */
    public void broadcast(MemorySegment bytes, int root) {
        staged(bytes, DType.U8, (count) -> CollectiveCall.broadcast(DType.U8, count, root, "staged"));
    }

    /**
     * Reduces elements of all ranks, wherever they lie, in place. Collective; waits.
     *
     * @throws TensorException if the memory holds no whole number of them; nothing is reduced then
     */
    public void allReduce(MemorySegment elements, DType type, ReduceOp op) {
        if (elements.byteSize() % type.bytes() != 0) {
            throw TensorException.argument("all reduce (" + op.name().toLowerCase(Locale.ROOT) + ")",
                    elements.byteSize()
                    + " bytes must be a multiple of " + type.bytes() + ", the bytes of an element of " + type,
                    "pass whole elements");
        }
        staged(elements, type, (count) -> CollectiveCall.allReduce(type, op, count, "staged"));
    }

    private interface Call {
        CollectiveCall of(long count);
    }

    private void staged(MemorySegment bytes, DType type, Call call) {
        if (stage == null) {
            stage = symmetric(STAGE);
            if (outdated != null) {
                outdated.close();
                outdated = null;
            }
        }
        for (long done = 0; done < bytes.byteSize(); done += STAGE) {
            long piece = Math.min(STAGE, bytes.byteSize() - done);
            MemorySegment.copy(bytes, done, stage.memory(), 0, piece);
            prepare(call.of(piece / type.bytes()), stage, 0).run(group.config().patience());
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
     * Ends what is under way here, for the rest of the epoch and without a word to the others: they learn of it when
     * this process leaves. After this, no memory is touched any more.
     */
    public void cease() {
        group.locked(() -> engine.fail(new DistributedException("this rank has ceased to take part")));
    }

    private void await(Task task, String what) {
        new Prepared(task).await(group.config().patience(), what);
    }

    /** A task of the engine as its user sees it. */
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
                DistributedException late = new DistributedException("waited " + atMost + " for "
                        + (what == null ? task : what) + "; " + engine.awaited(task));
                group.locked(() -> engine.abandon(late));
            }
            RuntimeException failure = task.failure();
            if (failure != null) {
                throw failure;
            }
        }
    }
}
