package dev.starling.distributed.group;

import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.encoding.RecordCodec;

/** Messages between members and the coordinator. */
public sealed interface Control {
    RecordCodec<Control> CODEC = RecordCodec.of(Control.class);

    /** Maximum number of members of a group. */
    int MAX_MEMBERS = 4096;

    /** A process requests to join; {@code preferredRank} is -1 for any. */
    record Join(String address, String host, int preferredRank, Role role) implements Control { }

    /** The first epoch has not begun, because processes are missing. */
    record Waiting(String missing) implements Control { }

    /**
     * The rules by which the coordinator forms the group; see its configuration. Every member has them, because it may
     * have to take the coordinator's place.
     *
     * @param reforms whether another epoch follows after a loss
     */
    record Rules(int world, boolean reforms, int minMembers, int maxMembers, Quorum quorum, long joinTimeoutNs) {
        /** The rules before any are known. */
        static final Rules UNKNOWN = new Rules(1, false, 1, MAX_MEMBERS, new Quorum.None(), 0);
    }

    /** The members of a new epoch; {@code id} is that of the receiver. */
    record NewView(long id, View view, Rules rules) implements Control {
        /** Checks the number of members, and their ranks. */
        public NewView {
            if (view.world() < 1 || view.world() > MAX_MEMBERS) {
                throw new IllegalArgumentException("a view must have 1 to " + MAX_MEMBERS + " members, got "
                        + view.world());
            }
            for (int rank = 0; rank < view.world(); rank++) {
                if (view.members().get(rank).rank() != rank) {
                    throw new IllegalArgumentException("member " + rank + " of a view has another rank: " + view);
                }
            }
        }
    }

    /** The sender is connected to all members of the epoch. */
    record Ready(long epoch) implements Control { }

    /** All members are connected to each other: the epoch starts. */
    record Start(long epoch) implements Control { }

    /** The sender has lost the connection to a member, of which it received nothing for {@code silentNs}. */
    record Suspect(long epoch, long id, long silentNs, String reason) implements Control {
        /** Returns the message of a member that has detected a loss. */
        public static Suspect of(long epoch, long id, PeerLostException loss, String reason) {
            return new Suspect(epoch, id, loss.silentFor().toNanos(), reason);
        }
    }

    /** A member is lost, and the group, or the sender's part in it, ends. */
    record Lost(long epoch, LossReport loss) implements Control { }

    /** The receiver is not, or no longer, a member. */
    record Refused(String reason) implements Control { }

    /** The sender leaves the group. */
    record Leave() implements Control { }

    /**
     * Too few members of the last epoch are present to begin another one; see {@link Quorum}.
     *
     * @param present number of its members that the coordinator reaches
     * @param members number of its members that are not known to have ended
     */
    record NoQuorum(int present, int members) implements Control { }
}
