package dev.starling.tensor;

import java.util.concurrent.atomic.AtomicLong;

/** What the current thread is in the middle of: its innermost scope, who stands at the gate, and the next tensor id. */
final class ThreadState {
    private static final AtomicLong THREADS = new AtomicLong();
    private static final ThreadLocal<ThreadState> CURRENT = ThreadLocal.withInitial(ThreadState::new);

    Scope scope;
    /** {@code null} if nobody does. */
    Interceptor interceptor;
    long nextId = THREADS.getAndIncrement() << 40;

    static ThreadState current() {
        return CURRENT.get();
    }
}
