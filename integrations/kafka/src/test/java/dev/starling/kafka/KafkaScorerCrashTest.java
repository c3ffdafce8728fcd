package dev.starling.kafka;

import dev.starling.kafka.broker.EmbeddedBroker;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

@ExtendWith(Broker.class)
class KafkaScorerCrashTest {
    @TempDir
    Path directory;

    @Test
    @Timeout(150)
    void scoresEachRecordOnceWhenKilled(EmbeddedBroker broker) throws Exception {
        try (ScoringUnderKills run = new ScoringUnderKills(broker, directory, ScorerProcess.class, 40_000,
                Duration.ofSeconds(120))) {
            run.check(4, 2);
        }
    }

    @Test
    @Tag("stress")
    @Timeout(580)
    void scoresAMillionRecordsOnceWhenKilledTenTimes(EmbeddedBroker broker) throws Exception {
        try (ScoringUnderKills run = new ScoringUnderKills(broker, directory, ScorerProcess.class, 1_000_000,
                Duration.ofSeconds(540))) {
            run.check(20, 10);
        }
    }
}
