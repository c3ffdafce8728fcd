package dev.starling.distributed.group;

import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * The epochs that have started with this process as a member. All members of an epoch know the same ones, as far as
 * they were in them: the coordinator tells with each new view which epoch started last, so a member also counts one
 * whose start it was not sent, and forgets what came before one that started without it.
 */
final class PastEpochs {
    /** By epoch, the ids of its members in the order of their ranks: a view would take much more memory. */
    private final TreeMap<Long, long[]> ids = new TreeMap<>();
    private final Map<Long, Member> members = new HashMap<>();

    /** Adds an epoch that has started, unless it is known. */
    void add(View view) {
        ids.computeIfAbsent(view.epoch(), _ -> view.members().stream().mapToLong(Member::id).toArray());
        view.members().forEach(each -> members.put(each.id(), each));
    }

    /** Forgets all epochs unless a given one is the last of them: that one has started without this process. */
    void forgetUnlessLast(long started) {
        if (!ids.isEmpty() && ids.lastKey() != started) {
            ids.clear();
            members.clear();
        }
    }

    /** Returns the first of the epochs that have all fulfilled a condition up to the last one, which fulfils it. */
    long begin(Predicate<View> condition) {
        long begin = ids.lastKey();
        for (Map.Entry<Long, long[]> epoch : ids.descendingMap().entrySet()) {
            if (!condition.test(view(epoch.getKey(), epoch.getValue()))) {
                break;
            }
            begin = epoch.getKey();
        }
        return begin;
    }

    private View view(long epoch, long[] idsByRank) {
        List<Member> all = new ArrayList<>();
        for (long id : idsByRank) {
            Member each = Objects.requireNonNull(members.get(id));
            all.add(new Member(id, all.size(), each.preferredRank(), each.address(), each.host(), each.role()));
        }
        return new View(epoch, all);
    }
}
