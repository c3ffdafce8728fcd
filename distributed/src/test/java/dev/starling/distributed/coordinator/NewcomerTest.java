package dev.starling.distributed.coordinator;

import static dev.starling.distributed.coordinator.SimulatedGroup.COORDINATOR;
import static dev.starling.distributed.coordinator.SimulatedGroup.END;
import static dev.starling.distributed.coordinator.SimulatedGroup.SILENCE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.SimulatedGroup.Life;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Fault;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A process that joins a group which exists learns within a liveness timeout that the group does not. */
class NewcomerTest {
    private static final Duration AT = Duration.ofMillis(200);
    private static final Duration LATE = END.plus(AT);

    private static void assertUnanswered(Life newcomer, Duration at, Duration within) {
        assertThat(newcomer.epochs).isEmpty();
        assertThat(newcomer.failure).isInstanceOf(DistributedException.class)
                .hasMessageContaining("no coordinator or member of the group answered at " + COORDINATOR);
        assertThat(newcomer.failed.minus(at)).isBetween(SILENCE, within);
    }

    @ParameterizedTest
    @ValueSource(strings = {COORDINATOR, COORDINATOR + ",rank0,rank1"})
    void aFinishedGroupDoesNotAnswer(String addresses) {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM))
                .newcomerAt(LATE, "newcomer", addresses).run();
        assertUnanswered(lives.get("newcomer"), LATE, SILENCE.multipliedBy(5).dividedBy(4));
    }

    /** Of a group that ends with the next loss, no member takes the place of the coordinator. */
    @Test
    void anOrphanedGroupDoesNotAnswer() {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.END),
                new Fault.Crash(AT, 0, COORDINATOR)).newcomerAt(AT.multipliedBy(2), "newcomer", COORDINATOR).run();
        assertUnanswered(lives.get("newcomer"), AT.multipliedBy(2), SILENCE.multipliedBy(5).dividedBy(4));
        assertThat(lives.get("rank0").failure).isNull();
    }

    @Test
    void aNewcomerFindsTheGroupByTheSecondAddress() {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM),
                new Fault.Crash(AT, 0, COORDINATOR)).newcomerAt(AT.multipliedBy(5), "newcomer", COORDINATOR + ",rank0")
                .run();
        assertThat(lives.get("newcomer").failure).isNull();
        assertThat(lives.get("newcomer").lastMembers()).containsExactly("rank0", "rank1", "newcomer");
    }

    /** As where a firewall lets the process reach the coordinator, but not a member, or that not the process. */
    @Test
    void theGroupContinuesWithoutAProcessThatAMemberDoesNotReach() {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(3, Coordinator.OnLoss.REFORM),
                unreached("rank1", "newcomer")).processAt(AT, "newcomer", COORDINATOR).run();
        assertContinues(lives, SILENCE.multipliedBy(3));
        assertThat(lives.get("newcomer").failure).isInstanceOf(DistributedException.class).hasMessageContaining(
                "rank 3 was excluded: cut off from 1 of the 3 other members; rank 1 reports: no connection within 20");
    }

    @Test
    void theGroupContinuesWithoutTwoProcessesThatDoNotReachEachOther() {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(3, Coordinator.OnLoss.REFORM),
                unreached("newcomer", "other")).processAt(AT, "newcomer", COORDINATOR)
                .processAt(AT, "other", COORDINATOR).run();
        assertContinues(lives, SILENCE.multipliedBy(5));
        for (String name : List.of("newcomer", "other")) {
            assertThat(lives.get(name).failure).as(name).isInstanceOf(DistributedException.class)
                    .hasMessageContaining("did not connect to the other members in time");
        }
    }

    private static Fault unreached(String first, String second) {
        return new Fault.Cut(Duration.ZERO, END.multipliedBy(5), Set.of(first), Set.of(second), true);
    }

    private static void assertContinues(Map<String, Life> lives, Duration within) {
        for (String name : List.of("rank0", "rank1", "rank2")) {
            Life life = lives.get(name);
            assertThat(life.failure).as(name).isNull();
            assertThat(life.epochs).as(name).hasSize(2);
            assertThat(life.lastMembers()).as(name).containsExactly("rank0", "rank1", "rank2");
            assertThat(life.begins.get(life.lastEpoch()).minus(AT)).as(name).isBetween(SILENCE, within);
        }
    }

    @Test
    void workersMayStartLongBeforeTheirCoordinator() {
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM))
                .lateCoordinator(SILENCE.multipliedBy(8)).run();
        lives.forEach((name, life) -> assertThat(life.lastMembers()).as(name).containsExactly("rank0", "rank1"));
    }

    /** A member that has not joined itself answers as none: no coordinator is lost, and there is no epoch. */
    @Test
    void aWarningNamesTheAddressesThatHaveNotAnswered() {
        Map<String, Life> lives = new HashMap<>();
        List<String> warnings = warnings(() -> lives.putAll(SimulatedGroup.of(CoordinatorConfig.of(2,
                Coordinator.OnLoss.REFORM)).lateCoordinator(SILENCE.multipliedBy(8)).processAt(Duration.ZERO,
                "newcomer", COORDINATOR + ",rank0").run()));
        assertThat(lives.get("newcomer").failure).isNull();
        assertThat(warnings).anySatisfy(line -> assertThat(line).startsWith(
                "no coordinator has answered yet at coordinator or rank0")).noneMatch(line -> line.contains(": ;"))
                .noneMatch(line -> line.startsWith("the coordinator is lost"));
    }

    private static List<String> warnings(Runnable run) {
        List<String> messages = new CopyOnWriteArrayList<>();
        SimpleFormatter formatter = new SimpleFormatter();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                if (line.getLevel().equals(Level.WARNING)) {
                    messages.add(formatter.formatMessage(line));
                }
            }

            @Override
            public void flush() {
            }

            @Override
            public void close() {
            }
        };
        Logger log = Logger.getLogger("dev.starling.distributed");
        log.addHandler(handler);
        try {
            run.run();
        } finally {
            log.removeHandler(handler);
        }
        return messages;
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "aeron"})
    @Timeout(30)
    void noProcessListens(String transport, @TempDir Path directory) throws IOException {
        int free = unusedPort();
        TransportConfig config = TransportConfig.of(transport, Secret.random()).directory(directory)
                .livenessTimeout(Duration.ofMillis(300));
        String address = "127.0.0.1:" + free;
        assertThatThrownBy(() -> Group.join(GroupConfig.of(config, address).existing(true)))
                .isInstanceOf(DistributedException.class).hasMessageContaining("answered at " + address)
                .hasMessageContaining("no process listens there");
    }

    /** Below the ports that the system assigns, from which the process that joins receives its own. */
    private static int unusedPort() throws IOException {
        for (int port = 20_000; ; port++) {
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                continue;
            }
        }
    }
}
