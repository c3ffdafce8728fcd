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
        return participant(id, "host" + id, preferredRank);
    }

    private static Participant participant(long id, String host, int preferredRank) {
        return new Participant(id, new Control.Join(host + ":" + id, host, preferredRank, new Role.Worker()), null);
    }

    /** A launcher reports the end of a process by its preferred rank, which differs from its rank. */
    @Test
    void aSpareKeepsItsPreferredRankWhenItBecomesAMember() {
        Participant first = participant(1, 0);
        Participant second = participant(2, 1);
        Participant spare = participant(3, 5);
        Electorate electorate = new Electorate(new Quorum.Majority());
        View view = Roster.next(new View(0, List.of()), List.of(first, second));
        electorate.onStarted(view);
        electorate.onStarted(Roster.next(view, List.of(first, spare)));
        assertThat(electorate.vote(List.of(first)).members()).isEqualTo(2);
        electorate.onProcessEnded(5, List.of(first));
        assertThat(electorate.vote(List.of(first))).isEqualTo(new Electorate.Vote(1, 1, true));
    }

    /**
     * Rank 0 was lost, so that the others have lower ranks than those that they prefer. Then the coordinator and the
     * first of them were lost: the coordinator that takes the place knows that one by the view only.
     */
    @Test
    void aSuccessorKnowsWhichMemberAProcessReplaces() {
        Participant remaining = participant(3, "host", 2);
        Electorate electorate = new Electorate(new Quorum.Majority());
        electorate.learn(Roster.next(new View(1, List.of()), List.of(participant(2, "host", 1), remaining)), true);
        Participant formerRankZero = participant(4, "host", 0);
        assertThat(electorate.vote(List.of(remaining, formerRankZero))).isEqualTo(new Electorate.Vote(1, 2, false));
        Participant replacement = participant(5, "host", 1);
        assertThat(electorate.vote(List.of(remaining, replacement))).isEqualTo(new Electorate.Vote(1, 1, true));
    }
}
