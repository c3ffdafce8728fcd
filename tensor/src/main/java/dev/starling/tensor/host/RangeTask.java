package dev.starling.tensor.host;

/** A loop body whose index range {@link Parallel} may split into parts that run at the same time. */
@FunctionalInterface
public interface RangeTask {
    /**
     * Processes the indices {@code from} (inclusive) to {@code to} (exclusive). Called for disjoint parts, on several
     * threads, in no particular order.
     */
    void run(long from, long to);
}
