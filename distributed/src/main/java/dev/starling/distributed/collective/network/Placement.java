package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.Fabric;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** The placement of ranks on hosts, as seen by one rank; all ranks have the same view of hosts. */
final class Placement {
    private final int[] near;
    private final int[] firsts;
    private final int rank;
    private final boolean mixed;

    Placement(Fabric fabric) {
        rank = fabric.rank();
        Map<String, List<Integer>> hosts = new LinkedHashMap<>();
        for (int r = 0; r < fabric.world(); r++) {
            hosts.computeIfAbsent(fabric.host(r), h -> new ArrayList<>()).add(r);
        }
        near = Objects.requireNonNull(hosts.get(fabric.host(rank))).stream().mapToInt(r -> r).toArray();
        firsts = hosts.values().stream().mapToInt(List::getFirst).toArray();
        mixed = firsts.length > 1 && firsts.length < fabric.world();
    }

    /** Returns whether there are several hosts, and one of them has several ranks. */
    boolean areMixed() {
        return mixed;
    }

    /** Returns the ranks of this rank's host, in order. */
    int[] near() {
        return near;
    }

    /** Returns this rank's index among the ranks of its host. */
    int place() {
        return Arrays.binarySearch(near, rank);
    }

    /** Returns the first rank of each host, in order. */
    int[] firsts() {
        return firsts;
    }

    boolean isFirst() {
        return near[0] == rank;
    }
}
