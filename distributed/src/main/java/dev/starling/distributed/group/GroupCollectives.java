package dev.starling.distributed.group;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
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

/** The collectives of one epoch, carried out by its {@link Engine}. */
final class GroupCollectives implements Collectives {
    private static final long STAGE_BYTES = 4L << 20;

    private final Membership group;
    private final Runnable check;
    private final Engine engine;
    private volatile GroupBuffer stage;
    /** Stage of an earlier epoch, whose calls may still use it when this epoch starts. */
    private GroupBuffer outdated;

    /**
     * Creates the collectives of an epoch.
     *
     * @param check throws the failure that ended the epoch, if it has ended
     * @param previous those of the last epoch, or {@code null}
     */
    GroupCollectives(Membership group, Runnable check, Engine engine, GroupCollectives previous) {
        this.group = group;
        this.check = check;
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

    @Override
    public GroupBuffer symmetric(long bytes) {
        SymmetricMemory[] registered = new SymmetricMemory[1];
        group.locked(() -> registered[0] = engine.register(bytes));
        GroupBuffer buffer = new GroupBuffer(group, registered[0]);
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

    @Override
    public byte[][] exchange(byte[] own) {
        Task[] task = new Task[1];
        group.locked(() -> task[0] = engine.exchange(own));
        await(task[0], "an exchange of bytes between all ranks");
        return task[0].blobs();
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
            String label, BooleanSupplier ready) {
        return new Prepared(engine.prepare(CollectiveCall.allReduce(type, op, count, label), memoryOf(buffer),
                offset, ready));
    }

    @Override
    public Work reduceScatter(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op) {
        return started(prepare(CollectiveCall.reduceScatter(type, op, count, ""), buffer, offset));
    }

    @Override
    public Work allGather(SymmetricBuffer buffer, long offset, long count, DType type) {
        return started(prepare(CollectiveCall.allGather(type, count, ""), buffer, offset));
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
        return new Prepared(engine.transfer(true, to, tag, bytes));
    }

    @Override
    public Work prepareReceive(MemorySegment into, int from, int tag) {
        return new Prepared(engine.transfer(false, from, tag, into));
    }

    @Override
    public void broadcast(MemorySegment bytes, int root) {
        staged(bytes, DType.U8, (count) -> CollectiveCall.broadcast(DType.U8, count, root, "staged"));
    }

    @Override
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
        return new Prepared(engine.prepare(call, buffer == null ? null : memoryOf(buffer), offset, null));
    }

    private static SymmetricMemory memoryOf(SymmetricBuffer buffer) {
        return ((GroupBuffer) buffer).symmetric();
    }

    private static Prepared started(Work work) {
        work.start();
        return (Prepared) work;
    }

    @Override
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
            check.run();
            group.locked(starting);
            group.wake();
        }

        @Override
        public void run(Duration atMost) {
            check.run();
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
