package dev.starling.distributed.collective.call;

import dev.starling.distributed.DistributedException;
import java.util.function.BooleanSupplier;

/** A collective, an exchange or a transfer of an {@code Engine}. Users see it as a {@code Work}. */
public final class Task {
    public final CollectiveCall call;
    public final SymmetricMemory memory;
    public final long offset;
    /** Returns whether the elements have arrived in memory; {@code null} if they have when the task is started. */
    public final BooleanSupplier ready;
    public final byte[] blob;
    public final Transfer transfer;
    private Task next;

    private volatile State state = State.IDLE;
    private volatile RuntimeException failure;
    private byte[][] blobs;

    private enum State { IDLE, IN_PROGRESS, DONE }

    public Task(CollectiveCall call, SymmetricMemory memory, long offset, BooleanSupplier ready, byte[] blob) {
        this.call = call;
        this.memory = memory;
        this.offset = offset;
        this.ready = ready;
        this.blob = blob;
        transfer = null;
    }

    public Task(Transfer transfer) {
        call = null;
        memory = null;
        offset = 0;
        ready = null;
        blob = null;
        this.transfer = transfer;
        transfer.belongTo(this);
    }

    /** Returns the task that follows in the engine's queue, or {@code null}. */
    public Task next() {
        return next;
    }

    public void next(Task following) {
        next = following;
    }

    public void begin() {
        if (state == State.IN_PROGRESS) {
            throw new DistributedException(this + " is in progress; wait for it before you start it again");
        }
        failure = null;
        state = State.IN_PROGRESS;
    }

    public boolean isReady() {
        return ready == null || ready.getAsBoolean();
    }

    public void succeed(byte[][] received) {
        blobs = received;
        state = State.DONE;
    }

    public void fail(RuntimeException why) {
        failure = why;
        state = State.DONE;
    }

    /** Returns whether the task is not in progress. */
    public boolean isDone() {
        return state != State.IN_PROGRESS;
    }

    /** Returns the failure, or {@code null}. */
    public RuntimeException failure() {
        return failure;
    }

    /** Returns the bytes of each rank in an exchange. */
    public byte[][] blobs() {
        return blobs;
    }

    @Override
    public String toString() {
        if (transfer != null) {
            return transfer.toString();
        }
        return blob != null ? "an exchange of " + blob.length + " bytes" : call.toString();
    }
}
