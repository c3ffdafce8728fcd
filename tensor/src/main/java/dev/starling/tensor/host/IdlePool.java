package dev.starling.tensor.host;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * Objects that no thread uses at the moment, such as scratch memory for a call: there are as many as there were
 * concurrent calls, however many threads start and end. Never blocks.
 */
public final class IdlePool<T> {
    private static final int SLOTS = 64;
    private final AtomicReferenceArray<@Nullable T> idle = new AtomicReferenceArray<>(SLOTS);

    private static int slot(int i) {
        return (int) Thread.currentThread().threadId() + i & SLOTS - 1;
    }

    /** Takes an object, preferably the one that this thread gave back last; returns {@code null} if there is none. */
    public @Nullable T take() {
        for (int i = 0; i < SLOTS; i++) {
            int slot = slot(i);
            T found = idle.getPlain(slot) == null ? null : idle.getAndSet(slot, null);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** Gives an object back; returns false if there is no place for it, so that the caller has to dispose of it. */
    public boolean give(T object) {
        for (int i = 0; i < SLOTS; i++) {
            if (idle.compareAndSet(slot(i), null, object)) {
                return true;
            }
        }
        return false;
    }
}
