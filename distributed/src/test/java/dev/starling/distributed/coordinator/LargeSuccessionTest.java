package dev.starling.distributed.coordinator;

import static dev.starling.distributed.coordinator.SimulatedGroup.COORDINATOR;
import static dev.starling.distributed.coordinator.SimulatedGroup.SILENCE;
import static dev.starling.distributed.coordinator.SimulatedGroup.cut;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.QuorumLostException;
import dev.starling.distributed.coordinator.SimulatedGroup.Life;
import dev.starling.transport.simulated.Fault;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A member takes the place of a lost coordinator in a group whose members are not all connected to each other. */
class LargeSuccessionTest {
    private static final int WORLD = 40;
    private static final Duration AT = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofSeconds(10);
    private static final Logger LOG = Logger.getLogger("dev.starling");
    private final Level level = LOG.getLevel();

    @BeforeEach
    void silence() {
        LOG.setLevel(Level.SEVERE);
    }

    @AfterEach
    void restore() {
        LOG.setLevel(level);
    }

    private static Map<String, Life> run(Fault... faults) {
        return SimulatedGroup.run(CoordinatorConfig.of(WORLD, Coordinator.OnLoss.REFORM), faults);
    }

    private static List<String> ranks(int from) {
        return IntStream.range(from, WORLD).mapToObj(rank -> "rank" + rank).toList();
    }

    private static void assertLastEpoch(Map<String, Life> lives, int epochs, List<String> members) {
        for (String name : members) {
            Life life = lives.get(name);
            assertThat(life.failure).as(name).isNull();
            assertThat(life.epochs).as(name).hasSize(epochs);
            assertThat(life.lastMembers()).as(name).isEqualTo(members);
        }
    }

    @Test
    @Tag("stress")
    void noEpochEndsWithTheCoordinator() {
        assertLastEpoch(run(new Fault.Crash(AT, 0, COORDINATOR)), 1, ranks(0));
    }

    @Test
    void theGroupSurvivesTheLossOfCoordinatorAndRankZeroAndThenOfTheNext() {
        Duration next = AT.multipliedBy(4);
        Map<String, Life> lives = run(new Fault.Crash(AT, 0, COORDINATOR), new Fault.Crash(AT, 0, "rank0"),
                new Fault.Crash(next, 0, "rank1"));
        assertLastEpoch(lives, 3, ranks(2));
        Life life = lives.get("rank39");
        List<Duration> begins = List.copyOf(life.begins.values());
        // Losses at about the same time share an epoch: the coordinator waits an eighth of the time for others.
        Duration atMost = SILENCE.multipliedBy(2).plus(SILENCE.dividedBy(8));
        assertThat(begins.get(1).minus(AT)).isLessThanOrEqualTo(atMost);
        assertThat(begins.get(2).minus(next)).isLessThanOrEqualTo(atMost);
    }

    @Test
    void theMajorityContinuesWithoutTheSideOfTheCoordinator() {
        int minority = 15;
        Map<String, Life> lives = run(cut(AT, LONG, WORLD, Stream.concat(Stream.of(COORDINATOR),
                IntStream.range(0, minority).mapToObj(rank -> "rank" + rank)).toArray(String[]::new)));
        List<String> majority = ranks(minority);
        for (String name : majority) {
            assertThat(lives.get(name).failure).as(name).isNull();
            assertThat(lives.get(name).lastMembers()).as(name).isEqualTo(majority);
        }
        for (int rank = 0; rank < minority; rank++) {
            assertThat(lives.get("rank" + rank).failure).as("rank " + rank).isInstanceOf(QuorumLostException.class);
        }
    }
}
