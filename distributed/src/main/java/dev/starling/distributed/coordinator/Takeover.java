package dev.starling.distributed.coordinator;

import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import java.util.List;
import java.util.function.LongPredicate;

/**
 * The start of a coordinator that takes the place of another one: it decides nothing before all members of the last
 * epoch follow it, or are lost, or a liveness timeout has passed, by which each of them has lost the former coordinator
 * as well.
 */
final class Takeover {
    private final LongPredicate isReached;
    private final long untilNs;

    /**
     * Begins to wait.
     *
     * @param isReached returns whether the process of the coordinator is connected to a member
     */
    Takeover(LongPredicate isReached, long untilNs) {
        this.isReached = isReached;
        this.untilNs = untilNs;
    }

    /** Returns whether a member that does not follow yet may still do so. */
    boolean isIncomplete(View last, List<Participant> participants, long now) {
        return now < untilNs && last.members().stream().map(Member::id).anyMatch(id -> isReached.test(id)
                && participants.stream().noneMatch(p -> p.id == id));
    }
}
