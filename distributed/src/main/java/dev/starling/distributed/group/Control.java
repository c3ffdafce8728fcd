package dev.starling.distributed.group;

import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.util.List;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/** Messages between members and the coordinator. */
public sealed interface Control {
    RecordCodec<Control> CODEC = RecordCodec.of(Control.class);

    /** Returns a message that a process has sent, or {@code null} after a warning if it is malformed. */
    static @Nullable Control read(Endpoint from, DirectBuffer buffer, int offset, int length) {
        try {
            return CODEC.decode(buffer, offset, length);
        } catch (IOException e) {
            System.getLogger("dev.starling.distributed").log(Level.WARNING, "refused a malformed control message from "
                    + "{0}: {1}", from.address(), e.getMessage());
            return null;
        }
    }

    /** Maximum number of members of a group. */
    int MAX_MEMBERS = 4096;

    /**
     * Version of what members exchange: of all messages, and of the way in which collectives divide data. Increment it
     * with each change that members of an earlier version would misunderstand.
     */
    int PROTOCOL = 4;

    /**
     * A process requests to join.
     *
     * @param protocol its {@link #PROTOCOL}
     * @param preferredRank -1 for any
     */
    record Join(int protocol, String address, String host, int preferredRank, Role role) implements Control {
        /** Creates the request of a process of this version. */
        public Join(String address, String host, int preferredRank, Role role) {
            this(PROTOCOL, address, host, preferredRank, role);
        }
    }

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

    /**
     * The members of a new epoch.
     *
     * @param id of the receiver
     * @param started number of the last epoch that has started; 0 if none has
     */
    record NewView(long id, View view, Rules rules, long started) implements Control {
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
            if (view.byId(id) == null) {
                throw new IllegalArgumentException("a view without its receiver, member " + id + ": " + view);
            }
        }
    }

    /** The sender is connected to all members of the epoch that it needs. */
    record Ready(long epoch) implements Control { }

    /** All members are connected to those that they need: the epoch starts. */
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

    /**
     * A member has opened a coordinator in place of the lost one. For other members, which follow it. In a large group
     * members pass the message on, because the first member is not connected to all.
     *
     * @param address of the coordinator
     * @param rank of the member that opened it
     * @param started number of the last epoch that started, as that member knows it
     * @param seen number of the last epoch that was proposed, as that member knows it
     * @param ageNs time since that member sent the message
     */
    record Successor(String address, int rank, long started, long seen, long ageNs) implements Control { }

    /**
     * A member has lost its coordinator, and follows the receiver.
     *
     * @param id of the sender
     * @param started number of the last epoch that started for the sender
     * @param seen number of the last epoch that was proposed to it
     * @param whole whether the sender is in the epoch that it has seen last, and reaches all members
     * @param newer those of the two epochs that the receiver may not know
     * @param join what the sender would send if it were no member
     */
    record Rejoin(long id, long started, long seen, boolean whole, List<View> newer, Join join) implements Control { }

    /** The sender follows another coordinator. It has not ended. */
    record Withdraw() implements Control { }

    /** The coordinator is at another address. */
    record Moved(String address) implements Control { }
}
