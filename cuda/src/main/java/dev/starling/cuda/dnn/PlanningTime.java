package dev.starling.cuda.dnn;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** How long this process has planned cuDNN's graphs, the comparison of engines included. Safe for several threads. */
public final class PlanningTime {
    private static final double NANOS = 1e9;
    private static final AtomicLong TOTAL_NS = new AtomicLong();
    private static final AtomicInteger GRAPHS = new AtomicInteger();

    private PlanningTime() { }

    /** Adds what so many graphs took. */
    static void add(long ns, int graphs) {
        TOTAL_NS.addAndGet(ns);
        GRAPHS.addAndGet(graphs);
    }

    static long totalNs() {
        return TOTAL_NS.get();
    }

    /** Returns the seconds that all graphs took so far. */
    public static double seconds() {
        return TOTAL_NS.get() / NANOS;
    }

    /** Returns how many graphs were planned so far. */
    public static int graphs() {
        return GRAPHS.get();
    }
}
