package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.transport.Endpoint;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.agrona.DirectBuffer;
import org.agrona.collections.ArrayUtil;

/**
 * The sub-groups of a group to which this process belongs. Messages of a sub-group carry a number that is a function of
 * its members and of the epoch since which they have been its members, so changes of other members do not concern it,
 * and all members compute the same, even if some were busy while others formed sub-groups that have ended. Used under
 * the group's lock.
 */
final class SubGroups {
    private final Membership group;
    private final Links links;
    /** All that are not closed. */
    private final List<SubGroup> open = new ArrayList<>();
    /** Those whose present epoch has not ended. Other threads read it. */
    private volatile SubGroup[] running = {};
    private final Map<Long, SubGroup> byNumber = new HashMap<>();
    private final PastEpochs past = new PastEpochs();
    /** How many sub-groups were formed of the same members since the same epoch. */
    private final Map<Long, Integer> formed = new HashMap<>();
    /** Messages of members that have formed a sub-group earlier than this process. */
    private final EarlyMessages early = new EarlyMessages();

    SubGroups(Membership group, Links links) {
        this.group = group;
        this.links = links;
    }

    /** Begins an epoch of a sub-group, with its members of the group's present epoch. */
    void form(SubGroup part) {
        group.check();
        end(part, new MembershipChangedException("the sub-group continues in epoch " + group.epoch()));
        long own = group.self().id();
        View view = new View(group.epoch(), part.membersOf(group.view(), own));
        long number = number(view, past.begin(each -> part.areMembersOf(each, own, view.members())));
        part.take(view, own);
        part.begin(group, links.fabric(number, view, part.self().rank()), Channels.SUB_GROUPS);
        part.failure = null;
        byNumber.put(number, part);
        open.remove(part);
        open.add(part);
        running = ArrayUtil.add(running, part);
        early.deliver(number, part::onCollectiveMessage);
    }

    /** Returns a positive number of 62 bits that all members of a sub-group compute. */
    private long number(View view, long since) {
        long members = mix(since) + view.world();
        for (Member each : view.members()) {
            members = mix(members ^ each.id());
        }
        return mix(members + formed.merge(members, 1, Integer::sum)) >>> 2;
    }

    /** Mixes the bits of a number. */
    private static long mix(long value) {
        return new SplittableRandom(value).nextLong();
    }

    /** Ends the present epoch of a sub-group, if it has not ended. */
    void end(SubGroup part, DistributedException why) {
        if (byNumber.values().remove(part)) {
            running = ArrayUtil.remove(running, part);
            part.fail(why);
        }
    }

    void endAll(DistributedException why) {
        for (SubGroup part : running) {
            end(part, why);
        }
    }

    void close(SubGroup part) {
        end(part, new DistributedException("the sub-group is closed"));
        if (open.remove(part)) {
            part.release();
        }
    }

    void close() {
        List.copyOf(open).forEach(this::close);
    }

    /** Returns whether a sub-group has pending work. Any thread may call this. */
    boolean isBusy() {
        for (SubGroup part : running) {
            if (part.engine().isBusy()) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether the pending work of a sub-group needs no network. */
    boolean worksDirectly() {
        for (SubGroup part : running) {
            if (part.engine().worksDirectly()) {
                return true;
            }
        }
        return false;
    }

    int doWork() {
        int work = 0;
        for (SubGroup part : running) {
            work += part.engine().doWork();
        }
        return work;
    }

    /** Returns whether a collective of a sub-group needs a member. */
    boolean awaits(long id) {
        for (SubGroup part : running) {
            int rank = part.rankOf(id);
            if (rank >= 0 && part.engine().awaits(rank)) {
                return true;
            }
        }
        return false;
    }

    void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < EpochMessages.HEADER - Channels.HEADER) {
            return;
        }
        long number = EpochMessages.epoch(buffer, offset);
        SubGroup part = byNumber.get(number);
        if (part != null) {
            part.onCollectiveMessage(from, buffer, offset, length);
        } else {
            early.add(number, from, buffer, offset, length);
        }
    }

    void onPut(Endpoint from, long immediate) {
        for (SubGroup part : running) {
            part.onPut(from, immediate);
        }
    }

    /** Ends the sub-groups to which a lost member belongs. */
    void onLost(long id, PeerLostException loss) {
        for (SubGroup part : running) {
            if (part.rankOf(id) >= 0) {
                end(part, loss);
            }
        }
    }

    /** Ends the sub-groups of which a new view of the whole group lacks members; {@link Links} has the last view. */
    void onNewView(View view, long ownId, long started) {
        early.removeFrom(sender -> !sender.isConnected());
        if (group.epoch() == started) {
            onStarted(group.view());
        }
        past.forgetUnlessLast(started);
        for (SubGroup part : running) {
            DistributedException why = part.loss(view, ownId, links);
            if (why != null) {
                end(part, why);
            }
        }
    }

    /** Ends the sub-groups that have other members in an epoch of the whole group, which has started. */
    void onStarted(View view) {
        past.add(view);
        for (SubGroup part : running) {
            DistributedException why = part.change(view);
            if (why != null) {
                end(part, why);
            }
        }
    }
}
