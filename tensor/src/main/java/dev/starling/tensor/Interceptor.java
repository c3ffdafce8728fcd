package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import java.util.function.Supplier;

/**
 * Sees each operation of one thread below every {@link Recorder}, even while recording is paused, and may choose the
 * memory of results. {@link dev.starling.tensor.program.Program} is captured and replayed through an interceptor.
 */
public interface Interceptor {
    /** Called after an operation has been carried out. The arrays must not be changed. */
    void onOperation(Op op, Tensor[] inputs, Tensor[] outputs);

    /** Returns the tensor to use in place of a new allocation, or {@code null} to allocate. */
    Tensor allocate(Spec spec, long[] strides);

    /** Called before the host reads elements; may throw. */
    void onRead(Tensor tensor);

    /** Returns this thread's interceptor, or {@code null}. */
    static Interceptor current() {
        return ThreadState.current().interceptor;
    }

    /** Sets this thread's interceptor, or none if {@code next} is {@code null}, and returns the previous one. */
    static Interceptor replace(Interceptor next) {
        ThreadState thread = ThreadState.current();
        Interceptor before = thread.interceptor;
        thread.interceptor = next;
        return before;
    }

    /** Runs {@code body} with {@code interceptor} on this thread, or with none if it is {@code null}. */
    static <T> T with(Interceptor interceptor, Supplier<T> body) {
        Interceptor before = replace(interceptor);
        try {
            return body.get();
        } finally {
            replace(before);
        }
    }
}
