package dev.starling.tensor.cpu.onednn;

import java.util.concurrent.atomic.LongAdder;

/** Counts copies of operands and results to other memory layouts, which cost time and compute nothing. */
public final class Reorders {
    private static final LongAdder COUNT = new LongAdder();

    private Reorders() { }

    /** Counts one copy. */
    public static void count() {
        COUNT.increment();
    }

    /** Returns the number of copies since the process began. */
    public static long total() {
        return COUNT.sum();
    }
}
