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
class StreamScoringCrashTest {
    @TempDir
    Path directory;

    @Test
    @Timeout(120)
    void scoresEachRecordOnceWhenKilled(EmbeddedBroker broker) throws Exception {
        try (ScoringUnderKills run = new ScoringUnderKills(broker, directory, StreamsProcess.class, 6_000,
                Duration.ofSeconds(100))) {
            run.check(2, 1);
        }
    }

    @Test
    @Tag("stress")
    @Timeout(580)
    void scoresEachRecordOnceWhenKilledFiveTimes(EmbeddedBroker broker) throws Exception {
        try (ScoringUnderKills run = new ScoringUnderKills(broker, directory, StreamsProcess.class, 200_000,
                Duration.ofSeconds(540))) {
            run.check(10, 5);
        }
    }
}
