package dev.starling.jmh;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** The clock of a measurement. */
enum Clock {
    /** Wall-clock time: what a user waits for. */
    WALL {
        @Override
        long nanos() {
            return System.nanoTime();
        }
    },
    /** The processor time of the calling thread, for single-threaded work on a busy machine. */
    PROCESSOR {
        @Override
        long nanos() {
            return THREADS.getCurrentThreadCpuTime();
        }
    };

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    abstract long nanos();
}
