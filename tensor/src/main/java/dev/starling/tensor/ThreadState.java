package dev.starling.tensor;

import java.util.concurrent.atomic.AtomicLong;

/** What the current thread is in the middle of: its innermost scope, and the next tensor id. */
final class ThreadState {
    private static final AtomicLong THREADS = new AtomicLong();
    private static final ThreadLocal<ThreadState> CURRENT = ThreadLocal.withInitial(ThreadState::new);

    Scope scope;
    long nextId = THREADS.getAndIncrement() << 40;

    static ThreadState current() {
        return CURRENT.get();
    }
}
