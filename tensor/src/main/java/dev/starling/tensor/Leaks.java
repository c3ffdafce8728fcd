package dev.starling.tensor;

import java.util.function.Consumer;

/**
 * Tells of memory that no scope owned and that only the garbage collector gave back. Off by default, since it takes a
 * stack trace for every such allocation; on with the system property {@code starling.leaks=true} or {@link #listen}.
 */
public final class Leaks {
    private static volatile Consumer<Leak> listener = Boolean.getBoolean("starling.leaks")
            ? leak -> System.getLogger("dev.starling.tensor").log(System.Logger.Level.WARNING,
                    "a tensor of " + leak.bytes() + " bytes was never closed; it was made here", leak.madeAt())
            : null;

    private Leaks() {
    }

    /**
     * A leaked allocation.
     *
     * @param bytes its size
     * @param madeAt the stack at which it was made
     */
    public record Leak(long bytes, Throwable madeAt) { }

    /** Calls {@code listener}, on a thread of its own, for every leak from now on; {@code null} turns detection off. */
    public static void listen(Consumer<Leak> listener) {
        Leaks.listener = listener;
    }

    static Throwable stack() {
        return listener == null ? null : new Throwable("allocated here");
    }

    static void report(long bytes, Throwable stack) {
        Consumer<Leak> l = listener;
        if (l != null && stack != null) {
            l.accept(new Leak(bytes, stack));
        }
    }
}
