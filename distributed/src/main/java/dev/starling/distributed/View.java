package dev.starling.distributed;

import java.util.List;

/**
 * Who belongs to a group for the time being.
 *
 * @param epoch grows with every change
 * @param members by rank
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
    public Member byId(long id) {
        // By index, because it is asked for every message and an iterator would be an object each time.
        for (int rank = 0; rank < members.size(); rank++) {
            if (members.get(rank).id() == id) {
                return members.get(rank);
            }
        }
        return null;
    }
}
