package dev.starling.distributed.collective;

import dev.starling.distributed.DistributedException;
import java.util.function.BooleanSupplier;

/** A collective, an exchange or a transfer of an {@link Engine}. Users see it as a {@code Work}. */
public final class Task {
    final CollectiveCall call;
    final SymmetricMemory memory;
    final long offset;
    /** Returns whether the elements have arrived in memory; {@code null} if they have when the task is started. */
    final BooleanSupplier ready;
    final byte[] blob;
    final Transfer transfer;
    Task next;

    private volatile State state = State.IDLE;
    private volatile RuntimeException failure;
    private byte[][] blobs;

    private enum State { IDLE, IN_PROGRESS, DONE }

    Task(CollectiveCall call, SymmetricMemory memory, long offset, BooleanSupplier ready, byte[] blob) {
        this.call = call;
        this.memory = memory;
        this.offset = offset;
        this.ready = ready;
        this.blob = blob;
        transfer = null;
    }

    Task(Transfer transfer) {
        call = null;
        memory = null;
        offset = 0;
        ready = null;
        blob = null;
        this.transfer = transfer;
        transfer.task = this;
    }

    void begin() {
        if (state == State.IN_PROGRESS) {
            throw new DistributedException(this + " is in progress; wait for it before you start it again");
        }
        failure = null;
        state = State.IN_PROGRESS;
    }

    boolean isReady() {
        return ready == null || ready.getAsBoolean();
    }

    void succeed(byte[][] received) {
        blobs = received;
        state = State.DONE;
    }

    void fail(RuntimeException why) {
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
