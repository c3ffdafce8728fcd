package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class PastEpochsTest {
    private final PastEpochs past = new PastEpochs();

    /** Returns an epoch of members with these ids; those with even ids have the role of a server. */
    private static View view(long epoch, long... ids) {
        List<Member> members = new ArrayList<>();
        for (long id : ids) {
            members.add(new Member(id, members.size(), (int) id, "address " + id, "host " + id,
                    id % 2 == 0 ? new Role.Server((int) id) : new Role.Worker()));
        }
        return new View(epoch, members);
    }

    /** Returns since when the workers are the same. */
    private long begin(Long... ids) {
        return past.begin(each -> each.members().stream().filter(member -> !member.isServer()).map(Member::id).toList()
                .equals(List.of(ids)));
    }

    @Test
    void countsFromTheLastChangeOfTheMembersAsked() {
        past.add(view(1, 1, 3, 5));
        past.add(view(2, 1, 3));
        assertThat(begin(1L, 3L)).isEqualTo(2);
        past.add(view(4, 1, 3, 6));
        past.add(view(4, 1, 3, 6));
        assertThat(begin(1L, 3L)).isEqualTo(2);
        past.add(view(5, 1, 3, 6, 7));
        assertThat(begin(1L, 3L, 7L)).isEqualTo(5);
        past.add(view(6, 1, 3, 6));
        assertThat(begin(1L, 3L)).isEqualTo(6);
    }

    @Test
    void restoresViewsAsTheyWere() {
        View first = view(1, 1, 3, 4);
        past.add(first);
        past.add(view(2, 3, 4));
        List<View> asked = new ArrayList<>();
        assertThat(past.begin(asked::add)).isEqualTo(1);
        assertThat(asked).containsExactly(view(2, 3, 4), first);
    }

    @Test
    void forgetsWhatPrecedesAnEpochWithoutThisProcess() {
        past.add(view(1, 1, 3));
        past.add(view(2, 1, 3));
        past.forgetUnlessLast(2);
        assertThat(begin(1L, 3L)).isEqualTo(1);
        past.forgetUnlessLast(3);
        past.add(view(4, 1, 3));
        assertThat(begin(1L, 3L)).isEqualTo(4);
    }
}
