package dev.starling.kafka;

import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs an application of Kafka Streams until it is killed; arguments: servers, topics of input, output, dead letters
 * and models.
 */
public final class StreamsProcess {
    private StreamsProcess() {
    }

    public static void main(String[] arguments) throws InterruptedException {
        KafkaCluster cluster = KafkaCluster.at(arguments[0]).deadline(Duration.ofSeconds(20));
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", arguments[0], "application.id", "killed-" + arguments[1],
                "processing.guarantee", "exactly_once_v2", "commit.interval.ms", "100", "replication.factor", "1",
                "state.dir", System.getProperty("java.io.tmpdir") + "/streams-" + arguments[1],
                "enable.metrics.push", "false", "num.stream.threads", "2"));
        // After a restart, a static member has its partitions immediately; its open transaction is aborted after 2 s.
        settings.putAll(Map.of("consumer.group.instance.id", "one", "producer.transaction.timeout.ms", "2000"));
        try (StreamScoring scoring = StreamScoring.open(cluster, RowCodec.floats(SumModel.COLUMNS),
                ModelTopic.of(arguments[4], "sum"), 1024, Duration.ofMillis(20));
                KafkaStreams streams = new KafkaStreams(
                        scoring.topology(arguments[1], arguments[2], arguments[3]), settings)) {
            CountDownLatch failed = new CountDownLatch(1);
            streams.setUncaughtExceptionHandler(e -> {
                e.printStackTrace();
                failed.countDown();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            failed.await();
        }
        System.exit(1);
    }
}
