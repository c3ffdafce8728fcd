package dev.starling.tensor;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * The state of one thread: its innermost scope, its recorder and interceptor, the next tensor id, and arrays that are
 * used again in each operation.
 */
final class ThreadState {
    private static final AtomicLong THREADS = new AtomicLong();
    private static final ThreadLocal<ThreadState> CURRENT = ThreadLocal.withInitial(ThreadState::new);

    @Nullable Scope scope;
    Recorder recorder = Recorder.NONE;
    Interceptor interceptor = Interceptor.NONE;
    long nextId = THREADS.getAndIncrement() << 40;
    final long[] dims = new long[Shape.MAX_RANK];
    /** By number of operands. */
    private final Spec[][] specs = new Spec[8][];
    /** The list of storages of the scope that this thread closed last, empty, or {@code null} while another uses it. */
    Storage @Nullable [] spareList;

    /** Returns an array for the specs of an operation's operands, valid until the next call. */
    Spec[] specs(int operands) {
        if (operands >= specs.length) {
            return new Spec[operands];
        }
        Spec[] array = specs[operands];
        if (array == null) {
            array = new Spec[operands];
            specs[operands] = array;
        }
        return array;
    }

    static ThreadState current() {
        return CURRENT.get();
    }
}
