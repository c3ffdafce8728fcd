package dev.starling.distributed.coordinator;

import static dev.starling.distributed.coordinator.SimulatedGroup.COORDINATOR;
import static dev.starling.distributed.coordinator.SimulatedGroup.SILENCE;
import static dev.starling.distributed.coordinator.SimulatedGroup.cut;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.QuorumLostException;
import dev.starling.distributed.coordinator.SimulatedGroup.Life;
import dev.starling.transport.simulated.Fault;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Which side of a divided group continues. */
class QuorumTest {
    private static final Duration AT = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofSeconds(10);

    private static CoordinatorConfig rules(int world) {
        return CoordinatorConfig.of(world, Coordinator.OnLoss.REFORM);
    }

    /** Detection takes one liveness timeout, and the member waits another one for the others to return. */
    private static void assertStopped(Life life, int rank, int reachable, int members) {
        assertThat(life.failure).isInstanceOfSatisfying(QuorumLostException.class, e -> {
            assertThat(e.rank()).isEqualTo(rank);
            assertThat(e.reachable()).isEqualTo(reachable);
            assertThat(e.members()).isEqualTo(members);
            assertThat(e).hasMessageContaining("rank " + rank).hasMessageContaining(reachable + " of the " + members);
        });
        assertThat(life.failed.minus(AT)).isBetween(SILENCE, SILENCE.multipliedBy(3));
        assertThat(life.lastEpoch()).isOne();
    }

    @Test
    void aMinorityStopsEvenWithTheCoordinator() {
        Map<String, Life> lives = SimulatedGroup.run(rules(3), cut(AT, LONG, 3, COORDINATOR, "rank0"));
        assertStopped(lives.get("rank0"), 0, 1, 3);
    }

    @Test
    void aMajorityContinues() {
        Map<String, Life> lives = SimulatedGroup.run(rules(3), cut(AT, LONG, 3, "rank0"));
        for (String name : new String[] {"rank1", "rank2"}) {
            assertThat(lives.get(name).failure).isNull();
            assertThat(lives.get(name).lastMembers()).containsExactly("rank1", "rank2");
        }
        assertThat(lives.get("rank0").failure).isNotNull();
    }

    @Test
    void ofTwoHalvesTheOneWithTheLowestRankContinues() {
        Map<String, Life> lives = SimulatedGroup.run(rules(4), cut(AT, LONG, 4, COORDINATOR, "rank0", "rank3"));
        assertThat(lives.get("rank0").lastMembers()).containsExactly("rank0", "rank3");
        assertThat(lives.get("rank3").lastMembers()).containsExactly("rank0", "rank3");
        lives = SimulatedGroup.run(rules(4), cut(AT, LONG, 4, COORDINATOR, "rank1", "rank3"));
        assertStopped(lives.get("rank1"), 1, 2, 4);
        assertStopped(lives.get("rank3"), 3, 2, 4);
    }

    /** Losses one after the other: each epoch decides about the next one. */
    @Test
    void countsMembersOfTheLastEpochOnly() {
        Map<String, Life> lives = SimulatedGroup.run(rules(4), new Fault.Crash(AT, 0, "rank1"),
                new Fault.Crash(AT.multipliedBy(3), 0, "rank2"), new Fault.Crash(AT.multipliedBy(5), 0, "rank3"));
        assertThat(lives.get("rank0").failure).isNull();
        assertThat(lives.get("rank0").lastMembers()).containsExactly("rank0");
    }

    @Test
    void everySideContinuesWithoutAQuorum() {
        Map<String, Life> lives = SimulatedGroup.run(rules(3).quorum(new Quorum.None()),
                cut(AT, LONG, 3, COORDINATOR, "rank0"));
        assertThat(lives.get("rank0").failure).isNull();
        assertThat(lives.get("rank0").lastMembers()).containsExactly("rank0");
    }

    @Test
    void aNumberOfMembersMayBeRequired() {
        Fault fault = cut(AT, LONG, 4, "rank3");
        assertThat(SimulatedGroup.run(rules(4).quorum(new Quorum.Members(3)), fault).get("rank0").lastMembers())
                .containsExactly("rank0", "rank1", "rank2");
        assertStopped(SimulatedGroup.run(rules(4).quorum(new Quorum.Members(4)), fault).get("rank0"), 0, 3, 4);
    }

    @Test
    void readsAQuorum() {
        assertThat(Quorum.parse("majority")).isEqualTo(new Quorum.Majority());
        assertThat(Quorum.parse("none")).isEqualTo(new Quorum.None());
        assertThat(Quorum.parse("3")).isEqualTo(new Quorum.Members(3));
        for (String wrong : new String[] {"half", "0", "-1", ""}) {
            assertThatThrownBy(() -> Quorum.parse(wrong)).isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining(wrong);
        }
    }
}
