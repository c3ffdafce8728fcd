package dev.starling.distributed.collective;

/** One collective of an {@link Engine}. Its user sees it through {@code Work}. */
public final class Task {
    final CollectiveCall call;
    final SymmetricMemory memory;
    final long offset;
    final byte[] blob;
    final Transfer transfer;
    Task next;

    private volatile State state = State.IDLE;
    private volatile RuntimeException failure;
    private byte[][] blobs;

    private enum State { IDLE, UNDER_WAY, DONE }

    Task(CollectiveCall call, SymmetricMemory memory, long offset, byte[] blob) {
        this.call = call;
        this.memory = memory;
        this.offset = offset;
        this.blob = blob;
        transfer = null;
    }

    Task(Transfer transfer) {
        call = null;
        memory = null;
        offset = 0;
        blob = null;
        this.transfer = transfer;
        transfer.task = this;
    }

    void begin() {
        if (state == State.UNDER_WAY) {
            throw new IllegalStateException(this + " is under way; wait for it before it is started again");
        }
        failure = null;
        state = State.UNDER_WAY;
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
