package dev.starling.jmh;

import java.util.List;

/** An implementation of the workloads: Starling, or a peer. */
public interface Engine {
    /**
     * Returns the variants in which the engine can run a workload, which have equal results, and of which the fastest
     * counts; none if it does not support the workload.
     */
    List<String> variants(Workload workload);

    /** Prepares a workload in one of its {@link #variants}. */
    Case prepare(Workload workload, String variant);
}
