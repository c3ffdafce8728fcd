package dev.starling.distributed;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The members of a group in one membership epoch.
 *
 * @param epoch number of the epoch, which grows with every change of members
 * @param members in the order of their ranks
 */
public record View(long epoch, List<Member> members) {
    /** Copies the list. */
    public View {
        members = List.copyOf(members);
    }

    /** Returns the number of members. */
    public int world() {
        return members.size();
    }

    /** Returns the member with an id, or {@code null}. */
    public @Nullable Member byId(long id) {
        // By index, because this runs for every message and an iterator would be an allocation each time.
        for (int rank = 0; rank < members.size(); rank++) {
            if (members.get(rank).id() == id) {
                return members.get(rank);
            }
        }
        return null;
    }
}
