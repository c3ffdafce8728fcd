package dev.starling.distributed.coordinator;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.group.Control;
import java.util.List;
import org.junit.jupiter.api.Test;

class ElectorateTest {
    private static Participant participant(long id, int preferredRank) {
        return new Participant(id, new Control.Join("host" + id + ":1", "host" + id, preferredRank,
                new Role.Worker()), null);
    }

    /** A launcher reports the end of a process by its preferred rank, which differs from its rank. */
    @Test
    void aSpareKeepsItsPreferredRankWhenItBecomesAMember() {
        Participant first = participant(1, 0);
        Participant second = participant(2, 1);
        Participant spare = participant(3, 5);
        Electorate electorate = new Electorate(new Quorum.Majority());
        List.of(first, second, spare).forEach(electorate::onJoined);
        View view = Roster.next(new View(0, List.of()), List.of(first, second));
        electorate.onStarted(view, List.of(first, second, spare));
        electorate.onStarted(Roster.next(view, List.of(first, spare)), List.of(first, spare));
        assertThat(electorate.vote(List.of(first)).members()).isEqualTo(2);
        electorate.onProcessEnded(5, List.of(first));
        assertThat(electorate.vote(List.of(first))).isEqualTo(new Electorate.Vote(1, 1, true));
    }
}
