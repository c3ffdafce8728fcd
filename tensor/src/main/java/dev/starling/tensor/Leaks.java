package dev.starling.tensor;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Reports memory that no scope owned and that was freed only by the garbage collector. Off by default, because it takes
 * a stack trace for every such allocation; the system property {@code starling.leaks=true} or {@link #listen} turns it
 * on.
 */
public final class Leaks {
    private static volatile @Nullable Consumer<Leak> listener = Boolean.getBoolean("starling.leaks")
            ? leak -> System.getLogger("dev.starling.tensor").log(System.Logger.Level.WARNING,
                    "a tensor of " + leak.bytes() + " bytes was never closed; allocated here", leak.madeAt())
            : null;

    private Leaks() {
    }

    /**
     * A leaked allocation.
     *
     * @param bytes its size
     * @param madeAt the stack trace of the allocation
     */
    public record Leak(long bytes, Throwable madeAt) { }

    /** Calls {@code listener}, on a thread of its own, for every leak from now on; {@code null} turns detection off. */
    public static void listen(@Nullable Consumer<Leak> listener) {
        Leaks.listener = listener;
    }

    static @Nullable Throwable stack() {
        return listener == null ? null : new Throwable("allocated here");
    }

    static void report(long bytes, @Nullable Throwable stack) {
        Consumer<Leak> l = listener;
        if (l != null && stack != null) {
            l.accept(new Leak(bytes, stack));
        }
    }
}
