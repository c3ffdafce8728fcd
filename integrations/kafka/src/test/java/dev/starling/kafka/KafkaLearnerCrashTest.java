package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.optim.Optimizer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Kills learners with signal 9: the weights, which are sums of rows, must contain each record exactly once. */
@ExtendWith(Broker.class)
class KafkaLearnerCrashTest {
    private static final RowCodec CODEC = RowCodec.floats(3);

    @TempDir
    Path directory;

    @Test
    @Timeout(150)
    void countsEachRecordOnceWhenKilled(EmbeddedBroker broker) throws Exception {
        check(broker, 20_000, 2, Duration.ofSeconds(120));
    }

    @Test
    @Tag("stress")
    @Timeout(400)
    void countsEachRecordOnceWhenKilledTenTimes(EmbeddedBroker broker) throws Exception {
        check(broker, 300_000, 10, Duration.ofSeconds(360));
    }

    private void check(EmbeddedBroker broker, int records, int kills, Duration deadline) throws Exception {
        KafkaCluster cluster = Broker.cluster(broker).deadline(Duration.ofSeconds(20));
        String topic = Broker.topic(broker, "labelled", 3);
        Path checkpoints = directory.resolve("checkpoints");
        Path log = directory.resolve("learner.log");
        String[] arguments = {broker.servers(), topic, checkpoints.toString(), "777"};
        long start = System.nanoTime();
        long lost = 0;
        ChildJvm learner = ChildJvm.start(log, LearnerProcess.class, arguments);
        try {
            for (int kill = 0; kill <= kills; kill++) {
                write(cluster, topic, (int) ((long) records * kill / (kills + 1)),
                        (int) ((long) records * (kill + 1) / (kills + 1)));
                boolean last = kill == kills;
                long least = last ? records : (long) records * (3 * kill + 1) / (3 * (kills + 1));
                while (saved(checkpoints) < least) {
                    if (System.nanoTime() - start > deadline.toNanos() || !learner.isAlive()) {
                        throw new AssertionError(saved(checkpoints) + " of " + least + " saved, learner alive: "
                                + learner.isAlive() + "\n" + Files.readString(log));
                    }
                    Thread.sleep(20);
                }
                if (!last) {
                    learner.kill();
                    lost = saved(checkpoints);
                    learner = ChildJvm.start(log, LearnerProcess.class, arguments);
                }
            }
        } finally {
            learner.close();
        }
        assertThat(lost).isPositive();
        require(cluster, topic, checkpoints, records);
        System.out.printf("%,d records, %d kills, %,d ms%n", records, kills, (System.nanoTime() - start) / 1_000_000);
    }

    /** Compares weights, counts and checksum of the last checkpoint with what the topic holds. */
    private static void require(KafkaCluster cluster, String topic, Path checkpoints, int records) {
        long checksum = 0;
        for (ConsumerRecord<byte[], byte[]> record : Records.read(cluster, topic, records)) {
            checksum += LearnerProgress.hash(record.partition(), record.offset(), record.value());
        }
        long second = 0;
        for (int id = 0; id < records; id++) {
            second += id % 53;
        }
        try (Layer model = CountingModel.create(2); Optimizer optimizer = CountingModel.optimizer(model);
                KafkaLearner again = LearnerProcess.settings(cluster, topic, checkpoints, 777, model, optimizer)
                        .open()) {
            assertThat(again.report().records()).isEqualTo(records);
            assertThat(again.report().trained()).isEqualTo(records);
            assertThat(again.report().checksum()).isEqualTo(checksum);
            assertThat(model.state().get("weight").value().toFloats()).containsExactly(records, second);
            assertThat(again.step()).as("records left").isZero();
        }
    }

    private static long saved(Path checkpoints) {
        try {
            Optional<Checkpoint> latest = Checkpoint.latest(checkpoints);
            return latest.isEmpty() ? 0 : latest.get().step();
        } catch (RuntimeException e) {
            // The learner deleted this checkpoint after it was listed; the next call finds a later one.
            return 0;
        }
    }

    private static void write(KafkaCluster cluster, String topic, int from, int to) {
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of("linger.ms", 20))) {
            for (int id = from; id < to; id++) {
                producer.send(new ProducerRecord<>(topic, Records.key(id), CODEC.encode(new float[] {1, id % 53, 0}, 0,
                        3)));
            }
        }
    }
}
