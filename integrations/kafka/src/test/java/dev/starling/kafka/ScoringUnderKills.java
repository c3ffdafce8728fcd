package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;

/**
 * Kills a scoring process with signal 9 while versions of the model are announced: each record must have exactly one
 * result, of one version.
 */
final class ScoringUnderKills implements AutoCloseable {
    private final KafkaCluster cluster;
    private final Path directory;
    private final Path log;
    private final Class<?> main;
    private final String[] arguments;
    private final int records;
    private final long start = System.nanoTime();
    private final long end;
    private final Tally tally;
    private final Consumer<byte[], byte[]> results;
    private ChildJvm scorer;

    /** Creates topics for a program; its arguments: servers, topics of input, output, dead letters and models. */
    ScoringUnderKills(EmbeddedBroker broker, Path directory, Class<?> main, int records, Duration deadline) {
        cluster = Broker.cluster(broker);
        this.directory = directory;
        log = directory.resolve("scorer.log");
        this.main = main;
        arguments = new String[] {broker.servers(), Broker.topic(broker, "in", 4), Broker.topic(broker, "out", 4),
            Broker.topic(broker, "dead", 1), Broker.topic(broker, "models", 1)};
        this.records = records;
        end = start + deadline.toNanos();
        tally = new Tally(records);
        results = cluster.consumer(Map.of("max.poll.records", 20_000));
        results.assign(cluster.partitions(results, arguments[2]));
        results.seekToBeginning(results.assignment());
    }

    /** Writes records in pieces, so that some are in flight at each announcement and each kill. */
    void check(int swaps, int kills) throws Exception {
        int killed = 0;
        try (ModelPublisher publisher = ModelPublisher.of(cluster, arguments[4], directory)) {
            publish(publisher, 1);
            begin();
            int written = 0;
            int parts = swaps * 2;
            for (int part = 1; part <= parts; part++) {
                int to = (int) ((long) records * part / parts);
                Records.write(cluster, arguments[1], written, to);
                int behind = written;
                written = to;
                if (part % 2 == 0) {
                    publish(publisher, 1 + part / 2);
                }
                // Some records of this piece must have a result before the next kill.
                drain(behind + (to - behind) / 3);
                if (part * kills / parts > killed) {
                    scorer.kill();
                    killed++;
                    begin();
                }
            }
            drain(records);
            long quiet = System.nanoTime() + Duration.ofSeconds(2).toNanos();
            while (System.nanoTime() < quiet) {
                results.poll(Duration.ofMillis(100)).forEach(tally::add);
            }
        }
        tally.requireEachOnce();
        assertThat(killed).isEqualTo(kills);
        assertThat(tally.versions().keySet()).hasSizeGreaterThan(swaps / 2);
        System.out.printf("%s: %,d records, %d swaps, %d kills, %,d ms: %s%n", main.getSimpleName(), records, swaps,
                killed, (System.nanoTime() - start) / 1_000_000, tally.versions());
    }

    private void begin() throws IOException {
        scorer = ChildJvm.start(log, main, arguments);
    }

    private void drain(int minimum) throws IOException {
        while (tally.count() < minimum) {
            if (System.nanoTime() > end || !scorer.isAlive()) {
                throw new AssertionError(tally.count() + " of " + minimum + " results, scorer alive: "
                        + scorer.isAlive() + "\n" + Files.readString(log));
            }
            results.poll(Duration.ofMillis(50)).forEach(tally::add);
        }
    }

    private static void publish(ModelPublisher publisher, long version) {
        try (Layer model = SumModel.ofVersion(version)) {
            publisher.publish("sum", version, model, SumModel.metadata());
        }
    }

    @Override
    public void close() {
        if (scorer != null) {
            scorer.close();
        }
        results.close();
    }
}
