package dev.starling.jmh;

import java.util.List;

/** Something that can do our workloads: Starling, or a peer. */
public interface Engine {
    /**
     * Returns the ways in which it can do a workload, all equal in result, of which the fastest counts; none if it
     * cannot do it.
     */
    List<String> variants(Workload workload);

    /** Prepares a workload in one of its {@link #variants}. */
    Case prepare(Workload workload, String variant);
}
