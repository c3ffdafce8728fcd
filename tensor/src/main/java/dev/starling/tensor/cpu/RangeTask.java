package dev.starling.tensor.cpu;

/** A loop body that {@link Parallel} may run over several parts of its index range at the same time. */
@FunctionalInterface
public interface RangeTask {
    /**
     * Does the work of the indices {@code from} (inclusive) to {@code to} (exclusive). Called for disjoint parts, on
     * several threads, in no particular order.
     */
    void run(long from, long to);
}
