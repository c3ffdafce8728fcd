package dev.starling.distributed.coordinator;

import dev.starling.distributed.Member;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.View;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The members whose presence decides whether a new epoch may form: those of the last epoch that started. Epochs that
 * were proposed and did not start do not count, because a coordinator that loses its members one by one proposes
 * smaller and smaller ones.
 */
final class Electorate {
    private final Quorum quorum;
    private View last = new View(0, List.of());
    /**
     * An epoch that another coordinator proposed later; members that are not here may have seen its start. It has no
     * members if there is none.
     */
    private View proposed = last;
    /** Ids of members that are known to have ended, and not only silent. */
    private final Set<Long> ended = new HashSet<>();

    Electorate(Quorum quorum) {
        this.quorum = quorum;
    }

    /**
     * The members of the last epoch that are present.
     *
     * @param present number of its members that are present
     * @param members number of its members that are not known to have ended
     */
    record Vote(int present, int members, boolean suffices) { }

    /** An epoch has started; it decides about the next one. */
    void onStarted(View view) {
        last = view;
        proposed = new View(0, List.of());
        ended.removeIf(id -> view.byId(id) == null);
    }

    /** Takes note of an epoch that started, or was proposed, under another coordinator. */
    void learn(View view, boolean isStarted) {
        if (isStarted && view.epoch() > last.epoch()) {
            last = view;
        } else if (!isStarted && view.epoch() > proposed.epoch()) {
            proposed = view;
        }
        proposed = proposed.epoch() > last.epoch() ? proposed : new View(0, List.of());
    }

    /** Returns the number of the last epoch that started; 0 if none has. */
    long started() {
        return last.epoch();
    }

    /** Returns the last epoch that started or may have started. */
    View latest() {
        return proposed.epoch() > last.epoch() ? proposed : last;
    }

    /** Returns whether a process is in an epoch that decides. */
    boolean includes(long id) {
        return last.byId(id) != null || proposed.byId(id) != null;
    }

    /** Returns whether a process was not in the last epoch that started. */
    boolean isNew(long id) {
        return last.byId(id) == null;
    }

    /** Notes that a member is known to have ended: it has left, or its launcher has reported its end. */
    void onEnded(long id) {
        ended.add(id);
    }

    /** Notes that a process has ended that had joined with a preferred rank and is not present. */
    void onProcessEnded(int preferredRank, List<Participant> participants) {
        for (Member member : last.members()) {
            if (preferredRank >= 0 && member.preferredRank() == preferredRank
                    && participants.stream().noneMatch(p -> p.id == member.id())) {
                ended.add(member.id());
            }
        }
    }

    /** Counts the members that are present; where two epochs decide, those of the one without a quorum. */
    Vote vote(List<Participant> participants) {
        Vote vote = vote(last, participants);
        return proposed.world() == 0 || !vote.suffices ? vote : vote(proposed, participants);
    }

    private Vote vote(View epoch, List<Participant> participants) {
        int present = 0;
        int members = 0;
        boolean lowest = false;
        for (Member member : epoch.members()) {
            boolean here = participants.stream().anyMatch(p -> p.id == member.id());
            if (here || !ended.contains(member.id()) && !isReplaced(member, participants)) {
                lowest |= here && members == 0;
                present += here ? 1 : 0;
                members++;
            }
        }
        boolean suffices = switch (quorum) {
            case Quorum.Majority _ -> 2 * present > members || 2 * present == members && (lowest || members == 0);
            case Quorum.Members(int count) -> present >= Math.min(count, members);
            case Quorum.None _ -> true;
        };
        return new Vote(present, members, suffices);
    }

    /**
     * Returns whether the member's process has joined again, or another one of the same host with its preferred rank: a
     * process is started again only after its end.
     */
    private boolean isReplaced(Member member, List<Participant> participants) {
        int preferred = member.preferredRank();
        return participants.stream().map(p -> p.join).anyMatch(join -> join.address().equals(member.address())
                || preferred >= 0 && join.preferredRank() == preferred && join.host().equals(member.host()));
    }
}
