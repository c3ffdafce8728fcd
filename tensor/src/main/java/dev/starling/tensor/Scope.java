package dev.starling.tensor;

import dev.starling.tensor.spi.Allocator;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Owns the memory of the tensors that its thread makes while it is the innermost open scope. Closing the scope frees
 * that memory immediately; {@link #keep} moves a tensor out that must outlive the scope.
 *
 * <pre>{@code
 * try (Scope step = Scope.open("step")) {
 *     Tensor loss = ...;              // freed with the step
 *     return step.keep(loss.mean());  // moved to the enclosing scope
 * }
 * }</pre>
 *
 * <p>A tensor made while no scope is open is freed by {@link Tensor#close} or, as a backstop, by the garbage collector.
 * A scope is confined to the thread that opened it; scopes are closed in the reverse order of opening.
 */
public final class Scope implements AutoCloseable {
    private final String name;
    private final @Nullable Scope parent;
    private final ThreadState thread;
    private Storage[] owned;
    private int count;
    private boolean closed;

    private Scope(String name, ThreadState thread) {
        this.name = name;
        this.thread = thread;
        this.parent = thread.scope;
        Storage[] spare = thread.spareList;
        owned = spare == null ? new Storage[8] : spare;
        thread.spareList = null;
    }

    /** Opens a scope inside the current scope. */
    public static Scope open() {
        return open("scope");
    }

    /** Opens a scope whose name appears in errors about tensors that it freed. */
    public static Scope open(String name) {
        ThreadState thread = ThreadState.current();
        Scope scope = new Scope(name, thread);
        thread.scope = scope;
        return scope;
    }

    /**
     * Runs {@code body} as if no scope were open: tensors that it makes (parameters, caches) belong to their holders.
     */
    public static <T> T detached(Supplier<T> body) {
        ThreadState thread = ThreadState.current();
        Scope outer = thread.scope;
        thread.scope = null;
        try {
            return body.get();
        } finally {
            thread.scope = outer;
        }
    }

    /**
     * Runs {@code body} in a scope of its own, moves the tensor that it returns to the current scope and frees the
     * rest.
     */
    public static Tensor run(Supplier<Tensor> body) {
        try (Scope scope = open()) {
            return scope.keep(body.get());
        }
    }

    /**
     * Moves a tensor, with all its views, from this scope to the enclosing one; has no effect on tensors that this
     * scope does not own.
     */
    public Tensor keep(Tensor tensor) {
        if (tensor.storage().scope == this) {
            tensor.storage().own(parent);
        }
        return tensor;
    }

    /** Moves a tensor, with all its views, into this scope. */
    public Tensor adopt(Tensor tensor) {
        requireOpen();
        tensor.storage().own(this);
        return tensor;
    }

    /**
     * Removes a tensor, with all its views, from its scope: it is freed by {@link Tensor#close} or when it becomes
     * unreachable.
     */
    public static Tensor release(Tensor tensor) {
        tensor.storage().own(null);
        return tensor;
    }

    /** Returns whether this scope owns the tensor's memory. */
    public boolean owns(Tensor tensor) {
        return tensor.storage().scope == this;
    }

    /** Returns the number of allocations that this scope owns, including those that another thread has closed. */
    public int size() {
        return count;
    }

    /** Returns the name given at opening. */
    public String name() {
        return name;
    }

    void add(Storage storage) {
        if (count == owned.length) {
            owned = Arrays.copyOf(owned, count * 2);
        }
        storage.slot = count;
        owned[count++] = storage;
    }

    void remove(Storage storage) {
        Storage last = owned[--count];
        owned[storage.slot] = last;
        last.slot = storage.slot;
        owned[count] = null;
    }

    boolean isOfThisThread() {
        return thread == ThreadState.current();
    }

    private void requireOpen() {
        if (closed) {
            throw new TensorException(TensorException.Problem.CLOSED, "scope " + name, List.of(),
                    "the scope is closed", "open another scope");
        }
    }

    /**
     * Frees all memory that this scope still owns. Closing twice has no effect.
     *
     * @throws TensorException if scopes inside it were still open, which are then closed as well, or on another thread
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        boolean isInnermost = isOfThisThread() && thread.scope == this;
        if (!isInnermost && (!isOfThisThread() || !isAround(thread.scope))) {
            throw misplaced();
        }
        // A StackOverflowError may have kept scopes inside this one from closing.
        while (thread.scope != null && thread.scope != this) {
            thread.scope.free();
        }
        free();
        if (!isInnermost) {
            throw misplaced();
        }
    }

    /** Returns whether a scope is inside this one. */
    private boolean isAround(@Nullable Scope other) {
        Scope each = other;
        while (each != null && each != this) {
            each = each.parent;
        }
        return each != null;
    }

    private TensorException misplaced() {
        return TensorException.argument("scope " + name, "must be closed on its own thread, innermost first",
                "use try-with-resources");
    }

    /** Closes this scope, the innermost. If that fails, it stays open, so that the scope around it can close it. */
    private void free() {
        while (count > 0) {
            Allocator allocator = owned[count - 1].allocator();
            if (allocator == null) {
                freeLast();
            } else {
                allocator.freeMany(() -> {
                    while (count > 0 && owned[count - 1].allocator() == allocator) {
                        freeLast();
                    }
                });
            }
        }
        closed = true;
        thread.scope = parent;
        thread.spareList = owned;
    }

    /** Frees the memory of the last storage. */
    private void freeLast() {
        Storage storage = owned[--count];
        owned[count] = null;
        storage.closeWithScope(name);
    }
}
