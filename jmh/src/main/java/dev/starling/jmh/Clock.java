package dev.starling.jmh;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** What time is measured with. */
enum Clock {
    /** The clock on the wall: what a user waits for. */
    WALL {
        @Override
        long nanos() {
            return System.nanoTime();
        }
    },
    /** The processor time of the calling thread: for work of one thread on a machine that others keep busy. */
    PROCESSOR {
        @Override
        long nanos() {
            return THREADS.getCurrentThreadCpuTime();
        }
    };

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    abstract long nanos();
}
