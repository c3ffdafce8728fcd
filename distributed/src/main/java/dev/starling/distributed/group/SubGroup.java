package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Some members of a group. It uses the connections and the thread of the whole group and has collectives of its own.
 */
final class SubGroup extends EpochGroup {
    private final Membership group;
    private final Function<Member, ?> colour;
    /** Whether a process of the same colour that joins ends the epoch. */
    private final boolean admits;

    SubGroup(Membership group, Function<Member, ?> colour, boolean admits) {
        this.group = group;
        this.colour = colour;
        this.admits = admits;
    }

    /** Returns the members of a whole group that have the colour of this process, with their ranks in the sub-group. */
    List<Member> membersOf(View whole, long ownId) {
        Member own = whole.byId(ownId);
        if (own == null) {
            return List.of();
        }
        Object mine = colour.apply(own);
        if (!Objects.equals(colour.apply(own), mine)) {
            throw TensorException.argument("split", "the colour of rank " + own.rank() + ", " + mine
                    + ", does not equal the one that is computed next", "compute it from the member alone, and return "
                    + "a value such as a number, a text or a List, not an array");
        }
        List<Member> members = new ArrayList<>();
        for (Member each : whole.members()) {
            if (Objects.equals(colour.apply(each), mine)) {
                members.add(new Member(each.id(), members.size(), each.preferredRank(), each.address(), each.host(),
                        each.role()));
            }
        }
        return members;
    }

    /** Returns whether these are the members that a whole group has of this process's colour. */
    boolean areMembersOf(View whole, long ownId, List<Member> members) {
        return ids(membersOf(whole, ownId)).equals(ids(members));
    }

    private static List<Long> ids(List<Member> members) {
        return members.stream().map(Member::id).toList();
    }

    /** Returns why a new view of the whole group, even if it never starts, ends this epoch, or {@code null}. */
    @Nullable DistributedException loss(View whole, long ownId, Links links) {
        if (ownId != self().id()) {
            return new MembershipChangedException("this process has joined the group again");
        }
        for (Member each : view().members()) {
            if (whole.byId(each.id()) == null) {
                return links.absence(each.id());
            }
        }
        return null;
    }

    /** Returns why an epoch of the whole group that has started ends this one, or {@code null}. */
    @Nullable DistributedException change(View whole) {
        try {
            return !admits || areMembersOf(whole, self().id(), view().members()) ? null
                    : new MembershipChangedException("epoch " + whole.epoch() + " has other members of this sub-group");
        } catch (RuntimeException e) {
            // The function of a user must not keep the whole group from its next epoch.
            return new DistributedException("the function that gives members their colours has failed in epoch "
                    + whole.epoch() + ": " + e, e);
        }
    }

    void fail(DistributedException why) {
        if (failure == null) {
            failure = why;
            engine().fail(why);
        }
    }

    @Override
    void locked(Runnable action) {
        group.locked(action);
    }

    @Override
    void check() {
        DistributedException why = failure;
        if (why != null) {
            throw why;
        }
    }

    @Override
    public GroupConfig config() {
        return group.config();
    }

    @Override
    public Group split(Function<Member, ?> inner) {
        check();
        return group.split(member -> Arrays.asList(colour.apply(member), inner.apply(member)));
    }

    @Override
    public int doWork() {
        return group.doWork();
    }

    @Override
    public void reform(Duration atMost) {
        while (true) {
            group.reform(atMost);
            try {
                locked(() -> group.subGroups().form(this));
                return;
            } catch (PeerLostException | MembershipChangedException endedAgain) {
                // Another epoch follows, or the group throws.
            }
        }
    }

    @Override
    public void abort(String reason) {
        locked(() -> group.subGroups().end(this, new DistributedException(reason)));
    }

    /** Ends the sub-group for this process. The whole group remains. */
    @Override
    public void close() {
        locked(() -> group.subGroups().close(this));
    }
}
