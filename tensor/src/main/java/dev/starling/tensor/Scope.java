package dev.starling.tensor;

import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;

/**
 * Owns the memory of the tensors that its thread makes while it is the innermost open scope. Closing it gives that
 * memory back at once; a tensor that is to outlive it is moved out with {@link #keep}.
 *
 * <pre>{@code
 * try (Scope step = Scope.open("step")) {
 *     Tensor loss = ...;              // dies with the step
 *     return step.keep(loss.mean());  // lives in the enclosing scope
 * }
 * }</pre>
 *
 * <p>Tensors made while no scope is open are freed by {@link Tensor#close} or, as a backstop, by the garbage collector.
 * A scope is confined to the thread that opened it and closed in the reverse order of opening.
 */
public final class Scope implements AutoCloseable {
    private final String name;
    private final Scope parent;
    private final ThreadState thread;
    private Storage[] owned = new Storage[32];
    private int count;
    private boolean closed;

    private Scope(String name, ThreadState thread) {
        this.name = name;
        this.thread = thread;
        this.parent = thread.scope;
    }

    /** Opens a scope inside the current one. */
    public static Scope open() {
        return open("scope");
    }

    /** Opens a scope whose name appears in errors about tensors that died with it. */
    public static Scope open(String name) {
        ThreadState thread = ThreadState.current();
        Scope scope = new Scope(name, thread);
        thread.scope = scope;
        return scope;
    }

    /** Runs {@code body} as if no scope were open: what it makes (parameters, caches) is owned by whoever holds it. */
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
     * Runs {@code body} in a scope of its own, moves the tensor that it returns to the current scope, frees the rest.
     */
    public static Tensor run(Supplier<Tensor> body) {
        try (Scope scope = open()) {
            return scope.keep(body.get());
        }
    }

    /** Moves a tensor, with all its views, from this scope to the one around it; others' tensors are left alone. */
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
     * Gives a tensor, with all its views, to whoever holds it: it is freed by {@link Tensor#close} or when unreachable.
     */
    public static Tensor release(Tensor tensor) {
        tensor.storage().own(null);
        return tensor;
    }

    /** Tells whether this scope owns the tensor's memory. */
    public boolean owns(Tensor tensor) {
        return tensor.storage().scope == this;
    }

    /** Returns how many allocations this scope owns. */
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

    private void requireOpen() {
        if (closed) {
            throw new TensorException(TensorException.Problem.CLOSED, "scope " + name, List.of(),
                    "the scope is closed", "open another");
        }
    }

    /** Frees everything that this scope still owns. Closing twice does nothing. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        if (thread != ThreadState.current() || thread.scope != this) {
            throw TensorException.argument("scope " + name, "scopes are closed on their own thread, innermost first",
                    "use try-with-resources");
        }
        closed = true;
        thread.scope = parent;
        while (count > 0) {
            Storage storage = owned[--count];
            owned[count] = null;
            storage.closeWithScope(name);
        }
    }
}
