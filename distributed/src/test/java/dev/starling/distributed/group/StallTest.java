package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A rank that waits for long says for which one, for what and for how long, before it gives up. */
@Timeout(60)
class StallTest {
    private static final int WORLD = 3;
    private static final Duration TIMEOUT = Duration.ofSeconds(9);
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.random())
            .livenessTimeout(Duration.ofSeconds(4));

    private static final class Warnings extends Handler {
        private final List<String> messages = new ArrayList<>();

        @Override
        public void publish(LogRecord line) {
            if (line.getLevel().equals(Level.WARNING)) {
                messages.add(new SimpleFormatter().formatMessage(line));
            }
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }
    }

    /** Rank 2 comes late to a barrier; returns the warnings. */
    private static List<String> lateBy(Duration late) {
        Warnings warnings = new Warnings();
        Logger log = Logger.getLogger("dev.starling.distributed");
        log.addHandler(warnings);
        try (Simulation simulation = Simulation.of(5)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), CONFIG),
                        WORLD, Coordinator.OnLoss.END, 1, TIMEOUT)) {
                    coordinator.run(Duration.ofMinutes(1));
                }
            });
            for (int rank = 0; rank < WORLD; rank++) {
                int self = rank;
                simulation.start("rank" + rank, () -> {
                    GroupConfig config = GroupConfig.of(null, "coordinator").preferredRank(self).host("host" + self)
                            .timeout(TIMEOUT);
                    try (Group group = Group.join(Transport.over(simulation.wire("rank" + self), CONFIG), config,
                            false)) {
                        Duration end = simulation.now().plus(late);
                        while (self == 2 && simulation.now().compareTo(end) < 0) {
                            simulation.sleep(Duration.ofMillis(100));
                            group.doWork();
                        }
                        group.collectives().barrier().await(TIMEOUT);
                    }
                });
            }
            simulation.run(Duration.ofMinutes(2));
        } finally {
            log.removeHandler(warnings);
        }
        return warnings.messages;
    }

    @Test
    void warnsAtIntervalsThatDouble() {
        // A third of the timeout, 3 s, is less than three liveness timeouts, 12 s.
        List<String> warnings = lateBy(Duration.ofSeconds(7));
        assertThat(warnings).hasSize(4).allSatisfy(each -> assertThat(each)
                .matches("rank [01] of 3 has waited [36]\\.0 s for barrier; rank 2 has not arrived; it gives up after "
                        + "9\\.0 s"));
        assertThat(warnings.stream().filter(each -> each.contains("3.0 s"))).hasSize(2);
        assertThat(warnings.stream().filter(each -> each.startsWith("rank 0"))).hasSize(2);
    }

    @Test
    void doesNotWarnOfAShortWait() {
        assertThat(lateBy(Duration.ofMillis(2500))).isEmpty();
    }
}
