package dev.starling.transport.simulated;

import java.util.HashMap;
import java.util.Map;

/** Between which processes nothing arrives. Overlapping cuts of the same direction are counted. */
final class Cuts {
    private final Map<String, Integer> counts = new HashMap<>();

    /** Begins or ends a cut; returns whether the direction is cut now. */
    boolean change(String from, String to, boolean begins) {
        counts.merge(way(from, to), begins ? 1 : -1, Integer::sum);
        return isCut(from, to);
    }

    boolean isCut(String from, String to) {
        return !counts.isEmpty() && counts.getOrDefault(way(from, to), 0) > 0;
    }

    private static String way(String from, String to) {
        return from + '>' + to;
    }
}
