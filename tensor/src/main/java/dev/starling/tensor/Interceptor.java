package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Sees each operation of one thread below every {@link Recorder}, even while recording is paused, and may choose the
 * memory of results. Bound to the thread as a recorder is.
 * {@link dev.starling.tensor.program.Program} is captured and replayed through an interceptor.
 */
@FunctionalInterface
public interface Interceptor {
    /** Intercepts nothing; binding it pauses the enclosing interceptor. */
    Interceptor NONE = (op, inputs, outputs) -> { };

    /**
     * Called after an operation has been carried out. The arrays must not be changed; those of a
     * {@link dev.starling.tensor.op.Update} may get other elements after the call.
     */
    void onOperation(Op op, Tensor[] inputs, Tensor[] outputs);

    /** Returns the tensor to use in place of a new allocation, or {@code null} to allocate. */
    default @Nullable Tensor allocate(Spec spec, long[] strides) {
        return null;
    }

    /** Called before the host reads elements; may throw. */
    default void onRead(Tensor tensor) { }

    /** Returns the interceptor bound to this thread, or {@link #NONE}. */
    static Interceptor current() {
        return ThreadState.current().interceptor;
    }

    /** Binds an interceptor to this thread and returns the previous one. */
    static Interceptor replace(Interceptor next) {
        ThreadState thread = ThreadState.current();
        Interceptor before = thread.interceptor;
        thread.interceptor = next;
        return before;
    }

    /** Runs {@code body} with {@code interceptor} bound to this thread. */
    static <T> T with(Interceptor interceptor, Supplier<T> body) {
        Interceptor before = replace(interceptor);
        try {
            return body.get();
        } finally {
            replace(before);
        }
    }
}
