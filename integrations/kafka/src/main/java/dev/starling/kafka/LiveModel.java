package dev.starling.kafka;

import java.util.concurrent.atomic.AtomicReference;

/** The model that serves now. Each batch takes it once, so that no batch sees two. */
final class LiveModel implements AutoCloseable {
    private final AtomicReference<ServedModel> current = new AtomicReference<>();
    private volatile boolean closed;

    /** Returns the version that serves, or {@code null} if none does yet. */
    ModelVersion version() {
        ServedModel served = current.get();
        return served == null ? null : served.version();
    }

    /** Returns the model, held until the caller drops it, or {@code null} if there is none. */
    ServedModel hold() {
        ServedModel served = current.get();
        while (served != null && !served.hold()) {
            served = current.get();
        }
        return served;
    }

    /**
     * Puts a model in the place of the one that serves, which closes when its last batch is done. After {@link #close},
     * the new one is closed.
     */
    void swap(ServedModel fresh) {
        replace(fresh);
        // A slow file may be read to its end after close(): one of the two threads sees the other's write.
        if (closed) {
            replace(null);
        }
    }

    private void replace(ServedModel fresh) {
        ServedModel old = current.getAndSet(fresh);
        if (old != null) {
            old.drop();
        }
    }

    @Override
    public void close() {
        closed = true;
        replace(null);
    }
}
