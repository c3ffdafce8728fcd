package dev.starling.distributed.chaos;

import java.util.Arrays;
import java.util.List;
import java.util.Set;

/** What happens to a process of a cluster, and what has to come of it: the table of expectations. */
enum Fault {
    /** A worker other than the first is killed. */
    WORKER_KILLED,
    /** The first worker is killed. */
    FIRST_KILLED,
    /** A server is killed. */
    SERVER_KILLED,
    /** The coordinator is killed, or the member that has taken its place. */
    COORDINATOR_KILLED,
    /** The launcher is killed, which runs the coordinator, too. */
    LAUNCHER_KILLED,
    /** A worker is killed before the group is complete; another process replaces it. */
    KILLED_BEFORE_START,
    /** A worker or server stops for less than the liveness timeout. */
    STOPPED_BRIEFLY,
    /** A worker or server stops for longer than the liveness timeout. */
    STOPPED,
    /** A worker or server is disconnected for less than the liveness timeout. */
    CUT_BRIEFLY,
    /** A worker or server is disconnected for longer than the liveness timeout. */
    CUT,
    /** The coordinator is disconnected for longer than the liveness timeout. */
    COORDINATOR_CUT,
    /** A worker is disconnected for so long that it gives up. */
    MINORITY_CUT;

    static final List<String> STRATEGIES = List.of("ring", "elastic", "gossip", "ps", "ps-sync");

    private static final Set<String> FAIL_STOP = Set.of("ring", "ps-sync");

    /** What has to come of a fault. */
    enum Outcome {
        /** All other workers end with an exception that names the victim. */
        ERROR,
        /** The others continue without the victim, which is replaced or returns. */
        CONTINUES,
        /** Workers continue at the latest when the victim is replaced or returns. */
        WAITS,
        /** All continue, the victim too, and none is lost. */
        UNDISTURBED
    }

    /** Returns whether the members of a group of this strategy end together. */
    static boolean isFailStop(String strategy) {
        return FAIL_STOP.contains(strategy);
    }

    boolean needsNetwork() {
        return this == CUT || this == CUT_BRIEFLY || this == COORDINATOR_CUT || this == MINORITY_CUT;
    }

    /** Returns whether the victim is alive and returns when the fault ends. */
    boolean passes() {
        return this == STOPPED || this == CUT;
    }

    /** Returns the faults of clusters of a strategy, on one host or on several. */
    static List<Fault> of(String strategy, boolean onHosts) {
        return Arrays.stream(values()).filter(each -> each.needsNetwork() == onHosts)
                .filter(each -> each != SERVER_KILLED || strategy.startsWith("ps"))
                .filter(each -> each != MINORITY_CUT || !isFailStop(strategy) && !strategy.startsWith("ps")).toList();
    }

    Outcome outcome(String strategy, boolean serverIsVictim) {
        return switch (this) {
            case KILLED_BEFORE_START -> Outcome.WAITS;
            case COORDINATOR_CUT, STOPPED_BRIEFLY, CUT_BRIEFLY -> Outcome.UNDISTURBED;
            case COORDINATOR_KILLED, LAUNCHER_KILLED, MINORITY_CUT, WORKER_KILLED, FIRST_KILLED, SERVER_KILLED,
                    STOPPED, CUT -> isFailStop(strategy) ? Outcome.ERROR
                            : serverIsVictim ? Outcome.WAITS : Outcome.CONTINUES;
        };
    }
}
