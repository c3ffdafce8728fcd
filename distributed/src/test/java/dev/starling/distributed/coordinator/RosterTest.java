package dev.starling.distributed.coordinator;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.group.Control;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class RosterTest {
    /** Processes with the ids 1 to 4, of which 3 and 4 are new. */
    private final List<Participant> participants = new ArrayList<>(LongStream.rangeClosed(1, 4)
            .mapToObj(id -> new Participant(id, new Control.Join("host" + id + ":1", "host" + id, -1,
                    new Role.Worker()), null)).toList());
    private final View view = Roster.next(new View(6, List.of()), participants);

    private List<Long> unready(long... ready) {
        LongStream.of(ready).forEach(id -> participants.get((int) id - 1).ready = 7);
        return Roster.unready(view, participants, RosterTest::isNew).stream().map(each -> each.id).toList();
    }

    private static boolean isNew(long id) {
        return id > 2;
    }

    @Test
    void anEpochWaitsInVainForNewProcessesFirst() {
        assertThat(unready()).containsExactly(3L, 4L);
        assertThat(unready(1, 3)).containsExactly(4L);
        assertThat(unready(4)).containsExactly(2L);
    }

    /** In whatever order they have joined this coordinator. */
    @Test
    void ofEquallySuspectedProcessesANewOneIsWorst() {
        Suspicions suspicions = new Suspicions();
        for (long[] pair : new long[][] {{2, 3}, {3, 2}}) {
            suspicions.add(pair[0], view.byId(pair[0]).rank(), new Control.Suspect(7, pair[1], 1, "is silent"), 5);
        }
        Collections.swap(participants, 1, 2);
        assertThat(suspicions.worst(participants, RosterTest::isNew)).get().extracting(each -> each.id).isEqualTo(3L);
        suspicions.add(1, 0, new Control.Suspect(7, 2, 1, "is silent"), 5);
        assertThat(suspicions.worst(participants, RosterTest::isNew)).get().extracting(each -> each.id).isEqualTo(2L);
    }
}
