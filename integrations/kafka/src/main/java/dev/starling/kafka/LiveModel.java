package dev.starling.kafka;

import java.util.concurrent.atomic.AtomicReference;

/** The model that is served. Each batch acquires it once, so that a batch is scored by one version. */
final class LiveModel implements AutoCloseable {
    private final AtomicReference<ServedModel> current = new AtomicReference<>();
    private volatile boolean closed;

    /** Returns the version that serves, or {@code null} if none does yet. */
    ModelVersion version() {
        ServedModel served = current.get();
        return served == null ? null : served.version();
    }

    /** Returns the model, open until the caller releases it, or {@code null} if there is none. */
    ServedModel acquire() {
        ServedModel served = current.get();
        while (served != null && !served.acquire()) {
            served = current.get();
        }
        return served;
    }

    /**
     * Replaces the model; the old one closes when its last batch is done. After {@link #close}, the new one is closed
     * instead.
     */
    void swap(ServedModel fresh) {
        replace(fresh);
        // close() may run while a file is loaded: one of the two threads sees the other's write and closes the model.
        if (closed) {
            replace(null);
        }
    }

    private void replace(ServedModel fresh) {
        ServedModel old = current.getAndSet(fresh);
        if (old != null) {
            old.release();
        }
    }

    @Override
    public void close() {
        closed = true;
        replace(null);
    }
}
