package dev.starling.distributed.coordinator;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.Control;
import dev.starling.errors.Durations;
import dev.starling.tensor.TensorException;
import java.time.Duration;

/**
 * The rules by which a coordinator forms a group. Immutable.
 *
 * @param world number of processes to wait for before the first epoch; a group that re-forms does not wait for one that
 *     has ended before
 * @param onLoss what happens after a loss
 * @param minMembers number of processes with which the group may continue after losses; the default is 1
 * @param maxMembers maximum number of members; further processes wait as spares until a member leaves or is lost. The
 *     default is no limit
 * @param quorum how many members of the last epoch another one needs, if the group re-forms; the default is a majority
 * @param joinTimeout how long the coordinator waits for the processes of the first epoch, at most 365 days; the default
 *     is a minute
 */
public record CoordinatorConfig(int world, OnLoss onLoss, int minMembers, int maxMembers, Quorum quorum,
        Duration joinTimeout) {
    /** A few times as many nanoseconds are still a {@code long}. */
    private static final Duration MAX_TIMEOUT = Duration.ofDays(365);

    /** Checks the values. */
    public CoordinatorConfig {
        if (world < 1 || world > Control.MAX_MEMBERS || minMembers < 1 || minMembers > world || maxMembers < world) {
            throw TensorException.argument("coordinator", "1 <= minMembers <= world <= " + Control.MAX_MEMBERS
                    + " and world <= maxMembers must hold, got minMembers " + minMembers + ", world " + world
                    + " and maxMembers " + maxMembers, "correct the arguments");
        }
        if (joinTimeout.compareTo(MAX_TIMEOUT) > 0) {
            throw TensorException.argument("coordinator", "joinTimeout must be at most "
                    + Durations.text(MAX_TIMEOUT) + ", got " + Durations.text(joinTimeout), "correct the argument");
        }
    }

    /** Returns the rules of a group that starts with {@code world} processes, with defaults for all else. */
    public static CoordinatorConfig of(int world, OnLoss onLoss) {
        return new CoordinatorConfig(world, onLoss, 1, Control.MAX_MEMBERS, new Quorum.Majority(),
                Duration.ofMinutes(1));
    }

    /** Returns the configuration of a group that re-forms, from the rules that its members know. */
    static CoordinatorConfig of(Control.Rules rules) {
        return new CoordinatorConfig(rules.world(), OnLoss.REFORM, rules.minMembers(), rules.maxMembers(),
                rules.quorum(), Duration.ofNanos(rules.joinTimeoutNs()));
    }

    /** Returns the rules as members know them. */
    Control.Rules rules() {
        return new Control.Rules(world, onLoss == OnLoss.REFORM, minMembers, maxMembers, quorum,
                joinTimeout.toNanos());
    }

    /** Returns a copy with another minimum number of members. */
    public CoordinatorConfig minMembers(int count) {
        return new CoordinatorConfig(world, onLoss, count, maxMembers, quorum, joinTimeout);
    }

    /** Returns a copy with another maximum number of members. */
    public CoordinatorConfig maxMembers(int count) {
        return new CoordinatorConfig(world, onLoss, minMembers, count, quorum, joinTimeout);
    }

    /** Returns a copy with another quorum. */
    public CoordinatorConfig quorum(Quorum newQuorum) {
        return new CoordinatorConfig(world, onLoss, minMembers, maxMembers, newQuorum, joinTimeout);
    }

    /** Returns a copy with another timeout for the processes of the first epoch. */
    public CoordinatorConfig joinTimeout(Duration newTimeout) {
        return new CoordinatorConfig(world, onLoss, minMembers, maxMembers, quorum, newTimeout);
    }
}
