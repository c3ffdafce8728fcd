package dev.starling.distributed.collective;

import dev.starling.distributed.DistributedException;
import java.util.function.BooleanSupplier;

/** One collective of an {@link Engine}. Its user sees it through {@code Work}. */
public final class Task {
    final CollectiveCall call;
    final SymmetricMemory memory;
    final long offset;
    /** Whether the memory holds what it is to, or {@code null} if it does from the start. */
    final BooleanSupplier ready;
    final byte[] blob;
    final Transfer transfer;
    Task next;

    private volatile State state = State.IDLE;
    private volatile RuntimeException failure;
    private byte[][] blobs;

    private enum State { IDLE, UNDER_WAY, DONE }

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
        if (state == State.UNDER_WAY) {
            throw new DistributedException(this + " is under way; wait for it before it is started again");
        }
        failure = null;
        state = State.UNDER_WAY;
    }

    boolean isReady() {
        return ready == null || ready.getAsBoolean();
    }

    void succeed(byte[][] heard) {
        blobs = heard;
        state = State.DONE;
    }

    void fail(RuntimeException why) {
        failure = why;
        state = State.DONE;
    }

    /** Returns whether it is over. */
    public boolean isDone() {
        return state != State.UNDER_WAY;
    }

    /** Returns why it failed, or {@code null}. */
    public RuntimeException failure() {
        return failure;
    }

    /** Returns what each rank said in an exchange. */
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
