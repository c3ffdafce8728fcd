package dev.starling.tensor;

import dev.starling.errors.ThreadException;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Form;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The memory behind a tensor and its views: one allocation, one owner. Its methods are meant for backends and for code
 * that plans memory or passes tensors on, as tapes and captured programs do; arithmetic does not need them. Confined to
 * one thread at a time.
 */
public final class Storage {
    /** What {@link #closedBy} is after {@link Tensor#close}. */
    static final String CLOSE = "close()";
    /** What {@link #closedBy} is after the end of the arena of a wrapped segment. */
    private static final String ARENA = "its segment's arena";
    private static final VarHandle BLOCK = blockHandle();

    private final Device device;
    private final @Nullable Allocator allocator;
    private @Nullable Block block;
    private final long bytes;
    /**
     * The caller's memory, which stays reachable as long as this storage, or the memory that Starling allocated,
     * {@code null} before its first use as a segment.
     */
    private @Nullable MemorySegment memory;
    /**
     * The storage that this one borrows from in a captured program, or {@code null}. Closing a borrower does nothing.
     */
    private @Nullable Storage lender;
    @Nullable Scope scope;
    int slot;
    int version;
    /** Forms of the elements, or {@code null} if none was asked for. Set under the lock of this object. */
    private volatile @Nullable KeptForms forms;
    /** Whether the elements may change without a new version. */
    private volatile boolean exposed;
    private int holds;
    @Nullable String closedBy;
    private @Nullable Backstop backstop;

    private Storage(Device device, @Nullable Allocator allocator, @Nullable Block block, long bytes,
            @Nullable MemorySegment memory) {
        this.device = device;
        this.allocator = allocator;
        this.block = block;
        this.bytes = bytes;
        this.memory = memory;
    }

    /** Allocates a row-major tensor with undefined content in the current scope. */
    public static Tensor allocate(Spec spec) {
        return allocate(spec, spec.shape().sharedStrides());
    }

    /** Allocates a tensor with undefined content and these dense strides in elements, checked. */
    public static Tensor allocate(Spec spec, long[] strides) {
        long[] own = spec.shape().ownStrides(strides);
        if (own != spec.shape().sharedStrides()) {
            require("allocate", spec, own, 0, spec.bytes());
        }
        ThreadState thread = ThreadState.current();
        Tensor lent = thread.interceptor.allocate(spec, own);
        if (lent != null) {
            return lent;
        }
        Allocator allocator = spec.device().backend().memory();
        Block block = allocator.allocate(spec.bytes());
        Storage storage = new Storage(spec.device(), allocator, block, spec.bytes(), null);
        try {
            storage.own(thread.scope);
        } catch (ThreadException e) {
            allocator.free(block);
            throw e;
        }
        return new Tensor(storage, spec, own, 0, thread);
    }

    private static VarHandle blockHandle() {
        try {
            return MethodHandles.lookup().findVarHandle(Storage.class, "block", Block.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    static Storage foreign(Device device, MemorySegment memory) {
        Block block = new Block(memory.address(), memory.byteSize());
        Storage storage = new Storage(device, null, block, block.capacity(), memory);
        storage.closedBy = ARENA;
        return storage;
    }

    /**
     * Makes a tensor over this memory. Strides and offset are in elements and are checked. Unlike the operations of
     * {@link dev.starling.tensor.op.View}, this does not pass gradients on.
     *
     * @throws TensorException if an element lies outside of the memory, or the memory is on another device
     */
    public Tensor view(Spec spec, long[] strides, long offset) {
        if (spec.device() != device) {
            throw new TensorException(TensorException.Problem.DEVICE, "view", List.of(spec),
                    "the memory is on " + device, "copy it with to(device)");
        }
        long[] own = spec.shape().ownStrides(strides);
        require("view", spec, own, offset, bytes);
        return new Tensor(this, spec, own, offset, ThreadState.current());
    }

    /**
     * Lends this memory, for memory planning, to a new tensor. No scope owns that tensor and {@link Tensor#close} does
     * not affect it: it stays open as long as this storage.
     *
     * @param spec on the same device, with no more bytes than this storage
     * @param strides dense, in elements
     * @throws TensorException if the memory is too small or was freed, or strides leave it
     */
    public Tensor lend(Spec spec, long[] strides) {
        if (isClosed() || spec.device() != device || spec.bytes() > bytes) {
            throw new TensorException(TensorException.Problem.SHAPE, "lend", List.of(spec),
                    "the memory must be open, on the same device and large enough; it has " + bytes + " bytes on "
                    + device, "lend from a larger tensor");
        }
        long[] own = spec.shape().ownStrides(strides);
        require("lend", spec, own, 0, spec.bytes());
        Storage storage = new Storage(device, null, null, spec.bytes(), null);
        storage.borrow(this, address());
        return new Tensor(storage, spec, own, 0, ThreadState.current());
    }

    /**
     * Makes the tensor that {@link #lend} returned, and all its views, borrow the memory of {@code from} instead, which
     * must be contiguous and of the same size.
     */
    public void relend(Tensor from) {
        if (lender == null || from.spec().bytes() != bytes || from.device() != device || !from.isContiguous()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "relend", List.of(from.spec()),
                    "needs memory that was lent, and a contiguous tensor of " + bytes + " bytes on " + device,
                    "copy the elements");
        }
        borrow(from.storage(), from.address());
    }

    /**
     * Ends a loan: the tensor that {@link #lend} returned for this storage, and all its views, are closed from now on.
     *
     * @param by what ended it, for messages
     */
    public void revoke(String by) {
        if (lender == null) {
            throw TensorException.argument("revoke", "the memory was not lent", "call Tensor.close()");
        }
        block = null;
        closedBy = by;
    }

    private void borrow(Storage from, long address) {
        from.expose();
        lender = from;
        closedBy = "its lender";
        if (block == null || block.address() != address) {
            block = address == from.address() ? from.block : new Block(address, 0);
        }
    }

    /** Counts one more holder: for code that passes tensors on before their scope closes, as a tape does. */
    public void hold() {
        holds++;
    }

    /** Removes one holder and frees the memory when none is left; has no effect on memory without holders. */
    public void drop() {
        if (holds > 0 && --holds == 0) {
            close("the last drop()");
        }
    }

    /** Returns the number of holders. */
    public int holds() {
        return holds;
    }

    /** Removes all holders: the memory lives until its scope closes. */
    public void unhold() {
        holds = 0;
    }

    /** Returns how often the memory was changed in place, so that recorders can detect it. */
    public int version() {
        return version;
    }

    /**
     * Counts a change in place that did not pass through {@link Tensor#apply}: in a replay by the device itself, or
     * through {@link Tensor#address}.
     */
    public void changed() {
        version++;
    }

    /**
     * Returns whether a use was counted {@code times} times since the elements last changed in place, and if not,
     * counts it. A copy of the elements for this use is worth keeping then; a weight that changes after each use, as in
     * training, is not copied for nothing. False for memory that can change without a new {@link #version}: memory that
     * was wrapped or lent, or whose segment was handed out. Any number of threads may call this.
     *
     * @param use identifies the elements and what is done with them
     */
    public boolean isReused(Form.Key use, int times) {
        KeptForms kept = forms();
        return kept != null && kept.isReused(use, version, times);
    }

    /**
     * Returns a copy of elements in the order in which a kernel reads them, for the caller to close after use. It is
     * kept until the elements change in place or the memory is freed. Any number of threads may call this.
     *
     * @param key identifies the form
     * @param bytes size of the form
     * @param writer writes the form from the elements
     * @return the form, or {@code null} while another thread makes it, if there is no memory for it, and for memory
     *     that can change without a new {@link #version}
     */
    public @Nullable Form form(Form.Key key, long bytes, Form.Writer writer) {
        KeptForms kept = forms();
        return kept == null ? null : kept.use(key, version, bytes, writer);
    }

    /** Returns a form that {@link #form} keeps, for the caller to close after use, or {@code null}. */
    public @Nullable Form keptForm(Form.Key key) {
        KeptForms kept = exposed ? null : forms;
        return kept == null ? null : kept.find(key, version);
    }

    private @Nullable KeptForms forms() {
        if (exposed) {
            return null;
        }
        KeptForms kept = forms;
        return kept == null ? newForms() : kept;
    }

    private synchronized @Nullable KeptForms newForms() {
        KeptForms kept = forms;
        if (kept == null && allocator != null && block != null && !exposed) {
            kept = new KeptForms(allocator);
            forms = kept;
            if (backstop != null) {
                backstop.forms = kept;
            }
        }
        return kept;
    }

    /** Keeps no forms from now on, because the elements may change without a new version. */
    void expose() {
        if (!exposed) {
            exposed = true;
            closeForms();
        }
    }

    private void closeForms() {
        KeptForms kept = forms;
        if (kept != null) {
            kept.close();
        }
    }

    /**
     * Requires all elements of a tensor to lie within {@code bytes}. None of the sums and products here can overflow.
     *
     * @throws TensorException if an element lies outside
     */
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

    /** Moves the storage to the scope {@code owner}, or leaves it to the garbage collector if that is {@code null}. */
    void own(@Nullable Scope owner) {
        if (lender != null) {
            return;
        }
        if (owner == null) {
            UnownedMemory.cleaner(); // If its thread cannot start, the scope keeps the storage.
        }
        if (scope != null) {
            scope.remove(this);
        }
        scope = owner;
        if (owner != null) {
            disarm();
            owner.add(this);
        } else if (allocator != null && block != null && backstop == null) {
            backstop = new Backstop(this, allocator, block);
            backstop.forms = forms;
            UnownedMemory.add(block.capacity());
        }
    }

    /** Returns what a caller can do about memory that was closed too early. */
    String remedyOfClosed() {
        if (lender != null) {
            return "copy() it while it is open";
        }
        if (ARENA.equals(closedBy)) {
            return "close the arena after the tensor's last use, or copy the segment with Tensor.copyOf";
        }
        return CLOSE.equals(closedBy) ? "close it after its last use"
                : "move it out with Scope.keep before its scope closes";
    }

    /** Returns the address of the memory, which must be open. */
    long address() {
        return Objects.requireNonNull(block).address();
    }

    /** Returns a part of host memory. Access throws an exception once the system has the memory back. */
    MemorySegment segment(long address, long length) {
        Storage owner = this;
        while (owner.lender != null) {
            owner = owner.lender;
        }
        if (!(owner.allocator instanceof HostAllocator host)) {
            return HostMemory.ALL.asSlice(address, length);
        }
        MemorySegment whole = owner.memory;
        if (whole == null) {
            whole = host.segment(Objects.requireNonNull(owner.block));
            owner.memory = whole;
        }
        // A view without elements may begin outside of the memory.
        return whole.asSlice(length == 0 ? 0 : address - whole.address(), length);
    }

    /** Returns the allocator of the memory, or {@code null} if it was lent or is foreign. */
    @Nullable Allocator allocator() {
        return allocator;
    }

    boolean isClosed() {
        return block == null || lender != null && lender.isClosed()
                || memory != null && !memory.scope().isAlive();
    }

    /** Returns the memory to its allocator; a second call has no effect. */
    void close(String by) {
        Block b = lender == null ? takeBlock() : null;
        if (b == null) {
            return;
        }
        closedBy = by;
        Scope owner = scope;
        // The scope of another thread keeps this storage in its list, and then finds it closed.
        if (owner != null && owner.isOfThisThread()) {
            owner.remove(this);
            scope = null;
        }
        disarm();
        closeForms();
        if (allocator != null) {
            allocator.free(b);
        }
    }

    /** Leaves the block to one of several threads that close the memory at the same time: a block is freed once. */
    private @Nullable Block takeBlock() {
        return (Block) BLOCK.getAndSet(this, null);
    }

    /** Called by {@link Scope#close}, which clears its list of storages itself. */
    void closeWithScope(String by) {
        scope = null;
        close(by);
    }

    private void disarm() {
        if (backstop != null) {
            UnownedMemory.remove(Objects.requireNonNull(backstop.block).capacity());
            backstop.block = null;
            backstop.registration.clean();
            backstop = null;
        }
    }

    /** Frees the block when the storage has become unreachable. */
    private static final class Backstop implements Runnable {
        private final Allocator allocator;
        private final @Nullable Throwable stack = Leaks.stack();
        private final Cleaner.Cleanable registration;
        private volatile @Nullable Block block;
        private volatile @Nullable KeptForms forms;

        Backstop(Storage storage, Allocator allocator, Block block) {
            this.allocator = allocator;
            this.block = block;
            registration = UnownedMemory.cleaner().register(storage, this);
        }

        @Override
        public void run() {
            Block b = block;
            if (b != null) {
                block = null;
                KeptForms kept = forms;
                if (kept != null) {
                    kept.close();
                }
                allocator.free(b);
                UnownedMemory.remove(b.capacity());
                Leaks.report(b.capacity(), stack);
            }
        }
    }
}
