package dev.starling.distributed.collective.shared;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import java.lang.foreign.MemorySegment;

/**
 * Collectives between ranks that map each other's memory. A rank reads all inputs of a result from the other ranks'
 * memory and writes the result directly to its destinations, in one pass.
 *
 * <p>The elements are divided into a share for each rank, and each share into pieces. When all ranks have arrived, each
 * claims pieces of its own share first and then of the others', so that a slow rank does not hold up the rest. Inputs
 * are reduced in the order of ranks, no matter which rank computes a piece, so all ranks have the same bits. Small
 * all-reduces need one round less: each rank copies its input to a slot, and every rank reduces all slots for itself.
 *
 * <p>A state machine that never waits: after {@link #begin}, call {@link #doWork} until {@link #isDone}. Runs one
 * collective at a time, on one thread at a time. The memories must stay mapped until the collective is done, or until
 * no thread calls {@link #doWork} any more.
 */
public final class DirectCollectives implements Algorithm {
    /** Size in bytes of a rank's control page. */
    public static final long CONTROL_BYTES = DirectControl.BYTES;

    private static final long PIECE = 64 << 10;
    private static final int SMALL = 4 << 10;

    private final int rank;
    private final int world;
    private final DirectControl[] controls;
    private final ReduceKernels kernels = new ReduceKernels();
    private final long[] slots;
    private final long[] self = new long[1];
    private final long[] memory;
    /** Number of pieces of each share in all collectives so far, including this one. */
    private final long[] limits;
    private long sequence;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private CollectiveCall call;
    private long offset;
    private State state = State.DONE;
    private int next;

    /**
     * Creates one rank's side.
     *
     * @param controls each rank's control page, as mapped by this process
     */
    public DirectCollectives(int rank, MemorySegment[] controls) {
        this.rank = rank;
        world = controls.length;
        this.controls = new DirectControl[world];
        for (int r = 0; r < world; r++) {
            this.controls[r] = new DirectControl(controls[r]);
        }
        slots = new long[world];
        memory = new long[world];
        limits = new long[world];
    }

    @Override
    public void begin(CollectiveCall newCall, SymmetricMemory all, long byteOffset) {
        begin(newCall, all.memories(), byteOffset);
    }

    /**
     * Begins a collective whose arguments {@code Engine.prepare} has checked. The rank's elements must be ready, and
     * must not be used by others until the collective is done.
     *
     * @param memories each rank's memory, as mapped by this process, all of the same size
     * @param byteOffset of the elements in each memory, a multiple of a cache line
     * @throws IllegalStateException if another collective is not done yet
     */
    public void begin(CollectiveCall newCall, MemorySegment[] memories, long byteOffset) {
        if (state != State.DONE) {
            throw new IllegalStateException("begin " + newCall + ": " + call + " is not done");
        }
        for (int r = 0; r < world; r++) {
            memory[r] = newCall.kind() == Kind.BARRIER ? 0 : memories[r].address();
        }
        boolean newText = newCall != call;
        call = newCall;
        offset = byteOffset;
        next = 0;
        state = State.GATHERING;
        sequence++;
        if (isSmall()) {
            ReduceKernels.copy(memory[rank] + offset, controls[rank].slot(sequence), call.bytes());
        } else {
            for (int r = 0; r < world; r++) {
                limits[r] += pieces(r);
            }
        }
        controls[rank].arrive(sequence, call, newText);
    }

    @Override
    public boolean isDone() {
        return state == State.DONE;
    }

    /** Advances the collective by at most one piece. */
    @Override
    public int doWork() {
        return switch (state) {
            case DONE -> 0;
            case GATHERING -> gather();
            case WORKING -> work();
            case FINISHING -> finish();
        };
    }

    @Override
    public int awaited() {
        return state == State.GATHERING ? next : -1;
    }

    private boolean isSmall() {
        return call.kind() == Kind.ALL_REDUCE && call.bytes() <= SMALL;
    }

    private int gather() {
        int before = next;
        while (next < world && controls[next].arrived() >= sequence) {
            if (controls[next].hash(sequence) != call.hash()) {
                throw new CollectiveMismatchException(sequence, rank, call.toString(), next, controls[next].text());
            }
            next++;
        }
        if (next < world) {
            return next - before;
        }
        next = 0;
        if (isSmall()) {
            for (int r = 0; r < world; r++) {
                slots[r] = controls[r].slot(sequence);
            }
            self[0] = memory[rank] + offset;
            kernels.reduce(call.dtype(), call.op(), slots, self, 0, call.count());
            state = State.DONE;
        } else {
            state = call.bytes() == 0 ? State.DONE : State.WORKING;
        }
        return 1;
    }

    private int work() {
        while (next < world) {
            int share = (rank + next) % world;
            long piece = controls[share].claim(limits[share]);
            if (piece >= 0) {
                run(share, piece - (limits[share] - pieces(share)));
                controls[share].finish();
                return 1;
            }
            next++;
        }
        next = 0;
        state = State.FINISHING;
        return finish();
    }

    private int finish() {
        while (next < world && controls[next].finished() >= limits[next]) {
            next++;
        }
        if (next < world) {
            return 0;
        }
        state = State.DONE;
        return 1;
    }

    private void run(int share, long piece) {
        long from = start(share) + piece * PIECE;
        long bytes = Math.min(PIECE, start(share + 1) - from);
        long at = offset + from;
        long count = bytes / call.dtype().bytes();
        switch (call.kind()) {
            case ALL_REDUCE -> kernels.reduce(call.dtype(), call.op(), memory, memory, at, count);
            case REDUCE_SCATTER -> {
                self[0] = memory[share];
                kernels.reduce(call.dtype(), call.op(), memory, self, at, count);
            }
            case ALL_GATHER -> copy(share, at, bytes);
            case BROADCAST -> copy(call.root(), at, bytes);
            case BARRIER -> throw new AssertionError(call);
        }
    }

    private void copy(int source, long at, long bytes) {
        for (int r = 0; r < world; r++) {
            ReduceKernels.copy(memory[source] + at, memory[r] + at, bytes);
        }
    }

    private long pieces(int share) {
        return (start(share + 1) - start(share) + PIECE - 1) / PIECE;
    }

    /** Returns the byte at which a rank's share begins. */
    private long start(int share) {
        boolean equal = call.kind() == Kind.REDUCE_SCATTER || call.kind() == Kind.ALL_GATHER;
        return CollectiveCall.start(call.bytes(), world, equal, share);
    }

    private enum State {
        /** Nothing to do. */
        DONE,
        /** Some ranks have not arrived. */
        GATHERING,
        /** There may be pieces that no rank has claimed. */
        WORKING,
        /** Other ranks may still compute pieces. */
        FINISHING
    }
}
