package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Kills scorers with signal 9 while models are swapped: each record must come out once, by one whole version. */
@ExtendWith(Broker.class)
class KafkaScorerCrashTest {
    @TempDir
    Path directory;

    @Test
    @Timeout(150)
    void scoresEachRecordOnceWhenKilled(EmbeddedBroker broker) throws Exception {
        check(broker, 40_000, 4, 2, Duration.ofSeconds(120));
    }

    @Test
    @Tag("stress")
    @Timeout(580)
    void scoresAMillionRecordsOnceWhenKilledTenTimes(EmbeddedBroker broker) throws Exception {
        check(broker, 1_000_000, 20, 10, Duration.ofSeconds(540));
    }

    /** Writes records bit by bit, so that each swap and each kill finds some under way. */
    private void check(EmbeddedBroker broker, int records, int swaps, int kills, Duration deadline) throws Exception {
        KafkaCluster cluster = Broker.cluster(broker).deadline(Duration.ofSeconds(20));
        String in = Broker.topic(broker, "in", 4);
        String out = Broker.topic(broker, "out", 4);
        String dead = Broker.topic(broker, "dead", 1);
        String models = Broker.topic(broker, "models", 1);
        Path log = directory.resolve("scorer.log");
        String[] arguments = {broker.servers(), in, out, dead, models};
        long start = System.nanoTime();
        int killed = 0;
        Tally tally = new Tally(records);
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory);
                Consumer<byte[], byte[]> results = cluster.consumer(Map.of("max.poll.records", 20_000))) {
            publish(publisher, 1);
            results.assign(cluster.partitions(results, out));
            results.seekToBeginning(results.assignment());
            ChildJvm scorer = ChildJvm.start(log, ScorerProcess.class, arguments);
            try {
                int written = 0;
                int parts = swaps * 2;
                for (int part = 1; part <= parts; part++) {
                    int to = (int) ((long) records * part / parts);
                    Records.write(cluster, in, written, to);
                    int behind = written;
                    written = to;
                    if (part % 2 == 0) {
                        publish(publisher, 1 + part / 2);
                    }
                    // At least some records of this part must have come out before the next blow.
                    drain(results, tally, behind + (to - behind) / 3, start, deadline, scorer, log);
                    if (part * kills / parts > killed) {
                        scorer.kill();
                        killed++;
                        scorer = ChildJvm.start(log, ScorerProcess.class, arguments);
                    }
                }
                drain(results, tally, records, start, deadline, scorer, log);
                long quiet = System.nanoTime() + Duration.ofSeconds(2).toNanos();
                while (System.nanoTime() < quiet) {
                    results.poll(Duration.ofMillis(100)).forEach(tally::take);
                }
            } finally {
                scorer.close();
            }
        }
        tally.requireEachOnce();
        assertThat(killed).isEqualTo(kills);
        assertThat(tally.versions().keySet()).hasSizeGreaterThan(swaps / 2);
        System.out.printf("%,d records, %d swaps, %d kills, %,d ms: %s%n", records, swaps, killed,
                (System.nanoTime() - start) / 1_000_000, tally.versions());
    }

    private static void drain(Consumer<byte[], byte[]> results, Tally tally, int least, long start, Duration deadline,
            ChildJvm scorer, Path log) throws Exception {
        while (tally.count() < least) {
            if (System.nanoTime() - start > deadline.toNanos() || !scorer.isAlive()) {
                throw new AssertionError(tally.count() + " of " + least + " results, scorer alive: "
                        + scorer.isAlive() + "\n" + Files.readString(log));
            }
            results.poll(Duration.ofMillis(50)).forEach(tally::take);
        }
    }

    private static void publish(ModelPublisher publisher, long version) {
        try (Layer model = SumModel.ofVersion(version)) {
            publisher.publish("sum", version, model, SumModel.metadata());
        }
    }
}
