package dev.starling.cuda.dnn;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** Total time that this process has spent planning cuDNN's graphs, comparisons of engines included. Thread-safe. */
public final class PlanningTime {
    private static final double NANOS = 1e9;
    private static final AtomicLong TOTAL_NS = new AtomicLong();
    private static final AtomicInteger GRAPHS = new AtomicInteger();

    private PlanningTime() { }

    /** Adds the time of planning a number of graphs. */
    static void add(long ns, int graphs) {
        TOTAL_NS.addAndGet(ns);
        GRAPHS.addAndGet(graphs);
    }

    static long totalNs() {
        return TOTAL_NS.get();
    }

    /** Returns the total in seconds. */
    public static double seconds() {
        return TOTAL_NS.get() / NANOS;
    }

    /** Returns the number of graphs planned so far. */
    public static int graphs() {
        return GRAPHS.get();
    }
}
