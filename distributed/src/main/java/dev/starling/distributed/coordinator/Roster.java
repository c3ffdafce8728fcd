package dev.starling.distributed.coordinator;

import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.Control;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.LongPredicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Which processes a coordinator admits, and the ranks that it gives to them. */
final class Roster {
    private static final int MAX_NAMED = 8;

    private Roster() { }

    /** Returns why a process cannot join a group that has not ended, or {@code null} if it can. */
    static @Nullable String refusal(CoordinatorConfig config, boolean everStarted, List<Participant> participants,
            Control.Join join) {
        if (join.protocol() != Control.PROTOCOL) {
            return "the process at " + join.address() + " has another version of Starling, with protocol "
                    + join.protocol() + " instead of " + Control.PROTOCOL + "; use the same version on all hosts";
        }
        // A group that re-forms admits processes even when it is complete: a new process may replace a member whose
        // loss is not detected yet.
        if (config.onLoss() == OnLoss.REFORM) {
            return null;
        }
        if (everStarted || participants.size() >= config.world()) {
            return "the group of " + config.world() + " is complete; only a group that re-forms admits new members";
        }
        return join.role() instanceof Role.Server server && participants.stream()
                .anyMatch(p -> p.join.role().equals(server))
                ? "server " + server.number() + " has joined already; give each server a number of its own" : null;
    }

    /**
     * Sorts participants by the ranks that they get. Members keep the order of their ranks; new members follow. The
     * first epoch honours preferred ranks.
     */
    static void sort(List<Participant> participants, View last, boolean everStarted) {
        participants.sort(everStarted ? Comparator.comparingLong(p -> p.id) : Comparator.<Participant>comparingInt(
                p -> p.join.preferredRank() < 0 ? Integer.MAX_VALUE : p.join.preferredRank())
                        .thenComparingLong(p -> p.id));
        if (everStarted) {
            participants.sort(Comparator.comparingInt(p -> rank(last, p.id)));
        }
    }

    /** Returns a member's rank; greater than all others if it is not in the view. */
    static int rank(View view, long id) {
        Member member = view.byId(id);
        return member == null ? Integer.MAX_VALUE : member.rank();
    }

    /** Returns whether these are the members of a view, and in its epoch without having lost any of them. */
    static boolean continues(View view, List<Participant> participants) {
        return view.world() == participants.size() && participants.stream()
                .allMatch(each -> view.byId(each.id) != null && each.continued == view.epoch());
    }

    /**
     * Returns those for which a proposed epoch waits in vain: the new ones of the processes that are not ready, without
     * which the others may be; if none of them is new, all.
     */
    static List<Participant> unready(View view, List<Participant> participants, LongPredicate isNew) {
        List<Participant> unready = participants.stream().filter(p -> p.ready != view.epoch()
                && view.byId(p.id) != null).toList();
        List<Participant> newcomers = unready.stream().filter(p -> isNew.test(p.id)).toList();
        return newcomers.isEmpty() ? unready : newcomers;
    }

    /** Returns a description of the members of a proposed epoch that are not connected to all that they need. */
    static String describeUnready(View view, List<Participant> participants) {
        List<Participant> unready = unready(view, participants, _ -> false);
        return unready.size() + " of " + view.world() + " members do not reach all others: " + unready.stream()
                .limit(MAX_NAMED).map(p -> "rank " + rank(view, p.id) + " at " + p.join.address())
                .collect(Collectors.joining(", ")) + (unready.size() > MAX_NAMED ? ", ..." : "")
                + "; check their hosts' names and firewalls";
    }

    /** Returns the next view, of these members. */
    static View next(View last, List<Participant> participants) {
        List<Member> members = new ArrayList<>();
        for (int rank = 0; rank < participants.size(); rank++) {
            Participant each = participants.get(rank);
            members.add(new Member(each.id, rank, each.join.preferredRank(), each.join.address(), each.join.host(),
                    each.join.role()));
        }
        return new View(last.epoch() + 1, members);
    }
}
