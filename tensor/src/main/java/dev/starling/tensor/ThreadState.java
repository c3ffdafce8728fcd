package dev.starling.tensor;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/** The state of one thread: its innermost scope, its recorder and interceptor, and the next tensor id. */
final class ThreadState {
    private static final AtomicLong THREADS = new AtomicLong();
    private static final ThreadLocal<ThreadState> CURRENT = ThreadLocal.withInitial(ThreadState::new);

    @Nullable Scope scope;
    Recorder recorder = Recorder.NONE;
    Interceptor interceptor = Interceptor.NONE;
    long nextId = THREADS.getAndIncrement() << 40;

    static ThreadState current() {
        return CURRENT.get();
    }
}
