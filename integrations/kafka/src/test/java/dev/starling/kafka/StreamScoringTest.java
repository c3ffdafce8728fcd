package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

@ExtendWith(Broker.class)
@Timeout(150)
class StreamScoringTest {
    @TempDir
    Path directory;

    @Test
    void scoresEachRecordOnceOverARestartAndASwap(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String in = Broker.topic(broker, "in", 2);
        String out = Broker.topic(broker, "out", 1);
        String dead = Broker.topic(broker, "dead", 1);
        String models = Broker.topic(broker, "models", 1);
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            publish(publisher, 1);
            Records.write(cluster, in, 0, 2000);
            try (StreamScoring scoring = StreamScoring.open(cluster, RowCodec.floats(SumModel.COLUMNS),
                    ModelTopic.of(models, "sum"), 256, Duration.ofMillis(10))) {
                KafkaStreams first = new KafkaStreams(scoring.topology(in, out, dead), settings(broker, in));
                first.start();
                Records.read(cluster, out, 500);
                first.close(CloseOptions.timeout(Duration.ofSeconds(10))
                        .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
                publish(publisher, 2);
                long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
                while (scoring.serving().version() != 2) {
                    assertThat(System.nanoTime()).isLessThan(end);
                    Thread.yield();
                }
                Records.write(cluster, in, 2000, 3000);
                Records.write(cluster, in, 3000, new byte[3]);
                // As large as the brokers take: it fits neither into the changelog nor into a dead letter.
                Records.write(cluster, in, 3001, new byte[1_048_480]);
                try (KafkaStreams streams = new KafkaStreams(scoring.topology(in, out, dead), settings(broker, in))) {
                    streams.start();
                    Records.read(cluster, out, 3000);
                    Records.read(cluster, dead, 2);
                }
            }
        }
        Tally tally = new Tally(3000);
        List<ConsumerRecord<byte[], byte[]>> results = Records.read(cluster, out, 3000);
        results.forEach(tally::add);
        tally.requireEachOnce();
        assertThat(tally.versions()).containsOnlyKeys(1L, 2L);
        for (ConsumerRecord<byte[], byte[]> letter : Records.read(cluster, dead, 2)) {
            boolean large = Records.id(letter.key()) == 3001;
            assertThat(Records.header(letter, StreamHeaders.TOPIC)).isEqualTo(in);
            assertThat(Records.header(letter, StreamHeaders.ERROR)).contains(large ? "max.request.size is 1048576"
                    : "got 3 bytes");
            if (large) {
                assertThat(Long.parseLong(Records.header(letter, StreamHeaders.ERROR).replaceAll("\\D+(\\d+).*", "$1")))
                        .isGreaterThan(1048576);
            }
            assertThat(Records.header(letter, StreamHeaders.OFFSET)).isNotNull();
            assertThat(Records.header(letter, StreamHeaders.OMITTED))
                    .isEqualTo(large ? "value of 1048480 bytes" : null);
        }
    }

    @Test
    void refusesALatencyThatKafkaStreamsCannotSchedule() {
        for (Duration latency : List.of(Duration.ZERO, ChronoUnit.FOREVER.getDuration())) {
            assertThatThrownBy(() -> StreamScoring.open(KafkaCluster.at("127.0.0.1:1"), RowCodec.floats(4),
                    ModelTopic.of("models", "sum"), 256, latency)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("a latency of 1 ms to 1 day, got 256 and " + latency);
        }
    }

    private Properties settings(EmbeddedBroker broker, String in) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", broker.servers(), "application.id", "streams-" + in,
                "processing.guarantee", "exactly_once_v2", "commit.interval.ms", "100", "replication.factor", "1",
                "state.dir", directory.resolve("state").toString(), "enable.metrics.push", "false",
                "num.stream.threads", "2"));
        // The second instance gets its partitions when session and transaction of the first one have ended.
        settings.putAll(Map.of("session.timeout.ms", "6000", "transaction.timeout.ms", "2000"));
        return settings;
    }

    private static void publish(ModelPublisher publisher, long version) {
        try (Layer model = SumModel.ofVersion(version)) {
            publisher.publish("sum", version, model, SumModel.metadata());
        }
    }
}
