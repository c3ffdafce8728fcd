package dev.starling.distributed.coordinator;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * The processes that a coordinator expects before the first epoch: which of them have not joined, and which have ended
 * and will not join. Ranks are those that processes prefer; a process without a preferred rank is only counted.
 */
final class Founders {
    private static final int MAX_NAMED = 8;

    private final int world;
    /** Why processes ended, by preferred rank. */
    private final Map<Integer, String> ended = new TreeMap<>();
    /** Number of processes without a preferred rank that have ended. */
    private int unranked;

    Founders(int world) {
        this.world = world;
    }

    /** Notes that the process of a preferred rank has ended; a replacement may join later. */
    void onEnded(int preferredRank, String reason) {
        if (preferredRank < 0) {
            unranked++;
        } else if (preferredRank < world) {
            ended.put(preferredRank, reason);
        }
    }

    /** As above, unless one of the participants has replaced the process. */
    void onEnded(int preferredRank, String reason, List<Participant> participants) {
        if (preferredRank < 0 || participants.stream().noneMatch(p -> p.join.preferredRank() == preferredRank)) {
            onEnded(preferredRank, reason);
        }
    }

    /** Notes that a process has joined, which replaces an ended one of its preferred rank. */
    void onJoined(int preferredRank) {
        if (preferredRank < 0) {
            unranked = Math.max(0, unranked - 1);
        } else {
            ended.remove(preferredRank);
        }
    }

    /** Returns the number of processes that have joined or can still join. */
    int expected() {
        return world - ended.size() - unranked;
    }

    /** Returns a description of the processes that have not joined. */
    String describeMissing(List<Participant> participants) {
        return describeMissing(participants.stream().map(p -> p.join.preferredRank()).collect(Collectors.toSet()),
                participants.size());
    }

    /**
     * Returns a description of the processes that have not joined.
     *
     * @param joined preferred ranks of those that have joined
     * @param count their number, including those without a preferred rank
     */
    String describeMissing(Set<Integer> joined, int count) {
        Set<Integer> missing = new TreeSet<>();
        for (int rank = 0; rank < world; rank++) {
            if (!joined.contains(rank)) {
                missing.add(rank);
            }
        }
        String head = count + " of " + world + " processes have joined; missing: ";
        if (missing.size() != world - count) {
            return head + (world - count) + " without a rank of their own";
        }
        String ranks = missing.stream().limit(MAX_NAMED).map(rank -> "rank " + rank
                + (ended.containsKey(rank) ? " (" + ended.get(rank) + ")" : "")).collect(Collectors.joining(", "));
        return head + ranks + (missing.size() > MAX_NAMED ? " and " + (missing.size() - MAX_NAMED) + " more" : "");
    }
}
