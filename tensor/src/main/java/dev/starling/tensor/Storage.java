package dev.starling.tensor;

import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.lang.ref.Cleaner;
import java.util.Arrays;
import java.util.List;

/** The memory behind a tensor and its views: one allocation, one owner. Confined to one thread at a time. */
final class Storage {
    private static final Cleaner CLEANER = Cleaner.create();

    final Device device;
    private final Allocator allocator;
    private Block block;
    private final long bytes;
    /** Keeps foreign memory reachable for as long as this storage is; {@code null} if Starling allocated the memory. */
    private final Object foreign;
    /**
     * The storage that this one borrows from in a captured program, or {@code null}. Closing a borrower does nothing.
     */
    private Storage lender;
    Scope scope;
    int slot;
    int version;
    /** Number of holders that {@link Tensor#hold} has counted. */
    int holds;
    String closedBy;
    private Cleaner.Cleanable backstop;
    private Backstop backstopState;

    private Storage(Device device, Allocator allocator, Block block, long bytes, Object foreign) {
        this.device = device;
        this.allocator = allocator;
        this.block = block;
        this.bytes = bytes;
        this.foreign = foreign;
    }

    static Storage allocate(Device device, long bytes, ThreadState state) {
        Allocator allocator = device.backend().memory();
        Storage storage = new Storage(device, allocator, allocator.allocate(bytes), bytes, null);
        storage.own(state.scope);
        return storage;
    }

    static Storage foreign(Device device, Block block, Object keeper) {
        return new Storage(device, null, block, block.capacity(), keeper);
    }

    static Storage lent(Storage lender, long bytes) {
        Storage storage = new Storage(lender.device, null, null, bytes, null);
        storage.lend(lender, lender.address());
        return storage;
    }

    /** Makes this storage borrow the memory at {@code address} of another lender. */
    void lend(Storage from, long address) {
        lender = from;
        closedBy = "its lender";
        if (block == null || block.address() != address) {
            block = address == from.address() ? from.block : new Block(address, 0);
        }
    }

    /** Returns the size in bytes, also after the memory was freed. */
    long bytes() {
        return bytes;
    }

    /**
     * Requires all elements of a tensor to lie within this memory. None of the sums and products here can overflow.
     *
     * @throws TensorException if an element lies outside
     */
    void require(String op, Spec spec, long[] strides, long offset) {
        require(op, spec, strides, offset, bytes);
    }

    /** Requires all elements of a tensor to lie within {@code bytes}. */
    static void require(String op, Spec spec, long[] strides, long offset, long bytes) {
        Shape shape = spec.shape();
        long room = bytes / spec.dtype().bytes();
        long lowest = offset;
        long highest = offset;
        boolean within = strides.length == shape.rank() && (shape.count() == 0 || offset >= 0 && offset < room);
        for (int i = 0; within && shape.count() > 0 && i < strides.length; i++) {
            long steps = shape.dim(i) - 1;
            long span = steps * strides[i];
            within = steps == 0 || Math.multiplyHigh(steps, strides[i]) == span >> 63 && Math.abs(span) <= room
                    && span != Long.MIN_VALUE;
            lowest += within ? Math.min(span, 0) : 0;
            highest += within ? Math.max(span, 0) : 0;
            within &= lowest >= 0 && highest < room;
        }
        if (!within) {
            throw new TensorException(TensorException.Problem.SHAPE, op, List.of(spec), "strides "
                    + Arrays.toString(strides) + " from element " + offset + " must stay within " + room
                    + " elements of memory", "give strides and an offset within the memory");
        }
    }

    boolean isLent() {
        return lender != null;
    }

    /** Moves the storage to the scope {@code owner}, or leaves it to the garbage collector if that is {@code null}. */
    void own(Scope owner) {
        if (lender != null) {
            return;
        }
        if (scope != null) {
            scope.remove(this);
        }
        scope = owner;
        if (owner != null) {
            if (backstop != null) {
                backstopState.block = null;
                backstop.clean();
                backstop = null;
            }
            owner.add(this);
        } else if (allocator != null && backstop == null) {
            backstopState = new Backstop(allocator, block, Leaks.stack());
            backstop = CLEANER.register(this, backstopState);
        }
    }

    long address() {
        return block.address();
    }

    boolean isClosed() {
        return block == null || lender != null && lender.isClosed();
    }

    /** Returns the memory to its allocator; a second call has no effect. */
    void close(String by) {
        Block b = block;
        if (b == null || lender != null) {
            return;
        }
        block = null;
        closedBy = by;
        if (scope != null) {
            scope.remove(this);
            scope = null;
        }
        if (backstop != null) {
            backstopState.block = null;
            backstop.clean();
        }
        if (allocator != null) {
            allocator.free(b);
        }
    }

    /** Called by {@link Scope#close}, which clears its list of storages itself. */
    void closeWithScope(String by) {
        scope = null;
        close(by);
    }

    private static final class Backstop implements Runnable {
        private final Allocator allocator;
        private final Throwable stack;
        private volatile Block block;

        Backstop(Allocator allocator, Block block, Throwable stack) {
            this.allocator = allocator;
            this.block = block;
            this.stack = stack;
        }

        @Override
        public void run() {
            Block b = block;
            if (b != null) {
                block = null;
                Leaks.report(b.capacity(), stack);
                allocator.free(b);
            }
        }
    }
}
