package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import java.util.function.Supplier;

/**
 * Stands at the gate of one thread, below every {@link Recorder}: sees each operation whoever else records, and may
 * choose the memory of results. This is how a program is captured and replayed; see
 * {@link dev.starling.tensor.program.Program}.
 */
public interface Interceptor {
    /** Is told of an operation that has been carried out. The arrays must not be changed. */
    void ran(Op op, Tensor[] inputs, Tensor[] outputs);

    /** Returns the tensor to be used in place of a newly allocated one, or {@code null} for that. */
    Tensor allocate(Spec spec, long[] strides);

    /** Is told before the host reads elements; may throw. */
    void read(Tensor tensor);

    /** Returns who stands at this thread's gate, or {@code null}. */
    static Interceptor current() {
        return ThreadState.current().interceptor;
    }

    /** Puts {@code next}, or nobody if it is {@code null}, at this thread's gate and returns who stood there. */
    static Interceptor replace(Interceptor next) {
        ThreadState thread = ThreadState.current();
        Interceptor before = thread.interceptor;
        thread.interceptor = next;
        return before;
    }

    /** Runs {@code body} with {@code interceptor}, or nobody if it is {@code null}, at this thread's gate. */
    static <T> T with(Interceptor interceptor, Supplier<T> body) {
        Interceptor before = replace(interceptor);
        try {
            return body.get();
        } finally {
            replace(before);
        }
    }
}
