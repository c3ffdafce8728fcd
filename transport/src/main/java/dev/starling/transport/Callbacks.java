package dev.starling.transport;

import java.util.List;

/** Calls that reach code of the application, which may throw exceptions. */
final class Callbacks {
    private Callbacks() { }

    /** Makes all calls; then throws the first exception that one of them threw, with the others as suppressed ones. */
    static void runAll(List<Runnable> calls) {
        RuntimeException first = null;
        for (Runnable call : calls) {
            try {
                call.run();
            } catch (RuntimeException e) {
                if (first == null) {
                    first = e;
                } else if (first != e) {
                    first.addSuppressed(e);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }
}
