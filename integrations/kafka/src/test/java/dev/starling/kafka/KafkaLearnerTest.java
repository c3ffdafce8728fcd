package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Metric;
import dev.starling.tensor.Generator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

@ExtendWith(Broker.class)
@Timeout(120)
class KafkaLearnerTest {
    /** Two numbers and the class: 1 where the first is greater. */
    private static final RowCodec CODEC = RowCodec.floats(3);

    @TempDir
    Path directory;
    private KafkaCluster cluster;
    private String topic;
    private String models;

    /** Two classes of two numbers. */
    public static final class TwoClasses implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return Linear.of(2, 2, generator);
        }
    }

    @BeforeEach
    void topics(EmbeddedBroker broker) {
        cluster = Broker.cluster(broker);
        topic = Broker.topic(broker, "labelled", 2);
        models = Broker.topic(broker, "models", 1);
    }

    private void write(int from, int to, boolean inverted) {
        Random random = new Random(from);
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of("linger.ms", 20))) {
            for (int id = from; id < to; id++) {
                float a = random.nextFloat();
                float b = random.nextFloat();
                producer.send(new ProducerRecord<>(topic, Records.key(id),
                        CODEC.encode(new float[] {a, b, a > b != inverted ? 1 : 0}, 0, 3)));
            }
        }
    }

    private LearnerSettings settings(Layer model, Optimizer optimizer) {
        return KafkaLearner.of(cluster, topic, CODEC).model(model, Loss.crossEntropy(), optimizer).classes(2)
                .checkpoints(directory.resolve("checkpoints")).checkpointEvery(1000, Duration.ofSeconds(1))
                .holdOut(10, 100, 50).metrics(Metric.accuracy())
                .publish(ModelTopic.of(models, "two"), directory.resolve("models"),
                        ModelDescription.of(TwoClasses.class, Map.of()).metadata());
    }

    private static void learn(KafkaLearner learner, long records) {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (learner.report().records() < records) {
            assertThat(System.nanoTime()).as("deadline; " + learner.report()).isLessThan(end);
            learner.step();
        }
    }

    @Test
    void keepsTheSettingsOfTheTimeWhenItWasOpened() {
        LearnerSettings settings = KafkaLearner.of(cluster, topic, CODEC).batch(7).holdOut(10, 100, 50)
                .checkpointEvery(1000, Duration.ofSeconds(1));
        LearnerSettings config = settings.copy();
        settings.batch(8).holdOut(5, 20, 10).checkpointEvery(1, Duration.ofSeconds(9)).classes(2).seed(3);
        assertThat(config.batch).isEqualTo(7);
        assertThat(config.holdOut).isEqualTo(10);
        assertThat(config.window).isEqualTo(100);
        assertThat(config.minMeasuredRows).isEqualTo(50);
        assertThat(config.checkpointRecords).isEqualTo(1000);
        assertThat(config.checkpointInterval).isEqualTo(Duration.ofSeconds(1));
        assertThat(config.split().classes()).isZero();
        assertThat(settings.targets(2).split()).isEqualTo(new RowSplit(3, 2, 0));
        assertThat(config.seed).isZero();
    }

    @Test
    void measuresTheMarginOfNegativeLossesDownwardsToo() {
        LearnerSettings settings = KafkaLearner.of(cluster, topic, CODEC).margin(0.1);
        assertThat(settings.improves(0.89, 1)).isTrue();
        assertThat(settings.improves(0.91, 1)).isFalse();
        assertThat(settings.improves(-1.11, -1)).isTrue();
        assertThat(settings.improves(-0.95, -1)).as("a loss that is worse").isFalse();
        assertThat(settings.improves(0, Double.NaN)).isFalse();
        assertThat(settings.improves(1, Double.POSITIVE_INFINITY)).isTrue();
    }

    @Test
    void publishesWhatIsBetterOnTheWindow() {
        write(0, 4000, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).rate(0.05).build();
                KafkaLearner learner = settings(model, adam).open()) {
            learn(learner, 4000);
            LearnerReport straight = learner.report();
            assertThat(straight.heldOut()).isBetween(300L, 500L);
            assertThat(straight.trained() + straight.heldOut()).isEqualTo(straight.records());
            assertThat(straight.metrics().get("accuracy")).isGreaterThan(0.85);
            assertThat(straight.published()).isNotNegative();
            write(4000, 12_000, true);
            learn(learner, 12_000);
            assertThat(learner.report().metrics().get("accuracy")).as("after the drift").isGreaterThan(0.85);
            assertThat(learner.report().published()).isGreaterThan(straight.published());
        }
        ConsumerRecord<byte[], byte[]> last = Records.read(cluster, models, 2).getLast();
        ModelVersion version = ModelVersion.ofJson(last.value());
        try (LiveModel live = new LiveModel()) {
            live.swap(new ModelLoader(ModelTopic.of(models, "two"), 2).load(version));
            float[] score = live.acquire().score(new float[] {0.9f, 0.1f}, 1, 2);
            assertThat(score[0]).as("inverted: class 0 where the first is greater").isGreaterThan(score[1]);
        }
    }

    @Test
    void resumesFromTheCheckpointAndAnnouncesOnce() {
        write(0, 3000, false);
        long published;
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).rate(0.05).build();
                KafkaLearner learner = settings(model, adam).open()) {
            learn(learner, 3000);
            published = learner.report().published();
        }
        write(3000, 3500, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(4)); Optimizer adam = Adam.over(model).rate(0.05).build()) {
            try (KafkaLearner learner = settings(model, adam).open()) {
                assertThat(learner.report().records()).isEqualTo(3000);
                while (learner.step() > 0) {
                    assertThat(adam.steps()).isGreaterThan(30);
                }
            }
            assertThat(Checkpoint.latest(directory.resolve("checkpoints")).orElseThrow().step()).isEqualTo(3500);
        }
        long announced = Records.read(cluster, models, 1).stream().map(r -> ModelVersion.ofJson(r.value()))
                .filter(v -> v.version() == published).count();
        assertThat(announced).isEqualTo(1);
    }

    /** The second topic of models holds what compaction leaves of the first after a return to an older version. */
    @Test
    void doesNotUndoAReturnToAnOlderVersion(EmbeddedBroker broker) {
        write(0, 2000, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).rate(0.05).build();
                Layer old = Linear.of(2, 2, Generator.seeded(5))) {
            publishTwo(4, old);
            long published;
            try (KafkaLearner learner = settings(model, adam).open()) {
                learn(learner, 2000);
                published = learner.report().published();
                assertThat(published).isGreaterThan(4);
            }
            models = Broker.topic(broker, "models", 1);
            publishTwo(3, old);
            try (KafkaLearner learner = settings(model, adam).open()) {
                assertThat(Records.read(cluster, models, 1)).extracting(r -> ModelVersion.ofJson(r.value()).version())
                        .containsExactly(3L);
                write(2000, 4000, false);
                learn(learner, 4000);
                assertThat(learner.report().published()).isGreaterThan(published);
            }
        }
    }

    private void publishTwo(long version, Layer model) {
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            publisher.publish("two", version, model, ModelDescription.of(TwoClasses.class, Map.of()).metadata());
        }
    }

    @Test
    void deadLettersWhatItCannotLearn(EmbeddedBroker broker) {
        String dead = Broker.topic(broker, "dead", 1);
        write(0, 100, false);
        Records.write(cluster, topic, 100, new byte[5]);
        Records.write(cluster, topic, 101, CODEC.encode(new float[] {1, 2, 7}, 0, 3));
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build();
                KafkaLearner learner = settings(model, adam).deadLetters(dead)
                        .checkpointEvery(102, ChronoUnit.FOREVER.getDuration())
                        .open()) {
            learn(learner, 102);
            assertThat(learner.report().refused()).isEqualTo(2);
        }
        assertThat(Records.read(cluster, dead, 2)).extracting(r -> Records.header(r, StreamHeaders.ERROR))
                .anyMatch(error -> error.contains("got 5 bytes"))
                .anyMatch(error -> error.contains("from 0 to 1, got 7.0"));
    }

    @Test
    void refusesSettingsAndCheckpointsThatDoNotFit(EmbeddedBroker broker) {
        write(0, 100, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            assertThatThrownBy(() -> settings(model, adam).holdOut(10, 100, 200).open())
                    .isInstanceOf(StreamException.class).hasMessageContaining("atLeast");
            assertThatThrownBy(() -> settings(model, adam).targets(3).open())
                    .isInstanceOf(StreamException.class).hasMessageContaining("1 to 2 of the target, got 3");
            assertThatThrownBy(() -> settings(model, adam).classes(0)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("1 class or more, got 0");
            assertThatThrownBy(() -> settings(model, adam).publish(ModelTopic.of(models, "team/two"), directory,
                    Map.of()).open()).isInstanceOf(StreamException.class).hasMessageContaining("got \"team/two\"");
            try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
                assertThatThrownBy(() -> publisher.publish("../two", 1, model, Map.of()))
                        .isInstanceOf(StreamException.class).hasMessageContaining("got \"../two\"");
            }
            try (KafkaLearner learner = settings(model, adam).checkpointEvery(100, Duration.ofSeconds(60)).open()) {
                learn(learner, 100);
            }
            topic = Broker.topic(broker, "labelled", 1);
            assertThatThrownBy(() -> settings(model, adam).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("the checkpoint is of topic");
        }
    }

    @Test
    void countsEachRecordOnceAfterAFailureWithinABatch() {
        Records.write(cluster, topic, 0, 300);
        AtomicInteger steps = new AtomicInteger();
        Loss failing = (result, target) -> {
            if (steps.incrementAndGet() == 3) {
                throw new IllegalStateException("the loss of the application fails");
            }
            return CountingModel.LOSS.of(result, target);
        };
        try (Layer model = CountingModel.create(3); Optimizer optimizer = CountingModel.optimizer(model)) {
            LearnerSettings settings = KafkaLearner.of(cluster, topic, RowCodec.floats(SumModel.COLUMNS))
                    .model(model, failing, optimizer).batch(20).holdOut(0, 1, 1).checkpoints(directory)
                    .checkpointEvery(1000, Duration.ofSeconds(60));
            KafkaLearner learner = settings.open();
            assertThatThrownBy(() -> learn(learner, 300)).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(learner::step).isInstanceOf(StreamException.class).hasMessageContaining("failed before");
            learner.close();
            // The same model, which has learned 40 records already.
            try (KafkaLearner next = settings.checkpointEvery(300, Duration.ofSeconds(60)).open()) {
                learn(next, 300);
            }
            float first = 0;
            for (int id = 0; id < 300; id++) {
                first += SumModel.row(id)[0];
            }
            assertThat(model.state().get("weight").value().toFloats()[0]).isEqualTo(first);
        }
    }

    @Test
    void endsRatherThanLoseADeadLetter(EmbeddedBroker broker) throws Exception {
        String dead = Broker.topic(broker, "dead", 1);
        Broker.limit(broker, dead, 500);
        Records.write(cluster, topic, 1, new byte[2000]);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build();
                KafkaLearner learner = settings(model, adam).deadLetters(dead)
                        .checkpointEvery(1, Duration.ofSeconds(60))
                        .open()) {
            assertThatThrownBy(() -> learn(learner, 1)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("dead letters to topic " + dead).hasMessageContaining("larger than");
        }
        assertThat(Checkpoint.latest(directory.resolve("checkpoints")).orElseThrow().step())
                .as("the record is to be learned again").isZero();
    }

    @Test
    void reportsThatRecordsWereDeletedBeforeTheyWereLearned(EmbeddedBroker broker) throws Exception {
        topic = Broker.topic(broker, "labelled", 1);
        write(0, 100, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            try (KafkaLearner learner = settings(model, adam).checkpointEvery(100, Duration.ofSeconds(60)).open()) {
                learn(learner, 100);
            }
            write(100, 200, false);
            delete(broker, 150);
            assertThatThrownBy(() -> settings(model, adam).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("ends before offset 100 of partition 0")
                    .hasMessageContaining("offsets 150 to 199: records were deleted before they were learned");
        }
    }

    /** The first checkpoint holds the place where each partition was begun, read or not. */
    @Test
    void reportsRecordsOfAPartitionThatWasNeverRead(EmbeddedBroker broker) throws Exception {
        topic = Broker.topic(broker, "labelled", 1);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            settings(model, adam).open().close();
            write(0, 100, false);
            delete(broker, 50);
            assertThatThrownBy(() -> settings(model, adam).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("ends before offset 0 of partition 0")
                    .hasMessageContaining("offsets 50 to 99: records were deleted before they were learned");
        }
    }

    /** Offsets of the checkpoint exist in the new topic too, but are those of other records. */
    @Test
    void reportsThatTheTopicWasCreatedAgain(EmbeddedBroker broker) throws Exception {
        topic = Broker.topic(broker, "labelled", 1);
        write(0, 100, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            try (KafkaLearner learner = settings(model, adam).checkpointEvery(100, Duration.ofSeconds(60)).open()) {
                learn(learner, 100);
            }
            String id = cluster.topicId(topic);
            recreate(broker);
            write(0, 200, false);
            assertThatThrownBy(() -> settings(model, adam).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("with the id " + id).hasMessageContaining("it was created again");
        }
    }

    private void recreate(EmbeddedBroker broker) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.servers()))) {
            admin.deleteTopics(List.of(topic)).all().get(20, TimeUnit.SECONDS);
            long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (admin.listTopics().names().get(20, TimeUnit.SECONDS).contains(topic)) {
                assertThat(System.nanoTime()).as("deadline").isLessThan(end);
            }
        }
        broker.topics(Map.of(topic, 1));
    }

    /** Where the marker of a transaction, which ends the topic, was deleted with all records, none is lost. */
    @Test
    void resumesBehindADeletedTransaction(EmbeddedBroker broker) throws Exception {
        topic = Broker.topic(broker, "labelled", 1);
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of("transactional.id", topic))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, Records.key(0), CODEC.encode(new float[] {1, 2, 0}, 0, 3)));
            producer.commitTransaction();
        }
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            try (KafkaLearner learner = settings(model, adam).open()) {
                learn(learner, 1);
            }
            delete(broker, 2);
            try (KafkaLearner learner = settings(model, adam).open()) {
                assertThat(learner.report().records()).isEqualTo(1);
            }
        }
    }

    private void delete(EmbeddedBroker broker, long before) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.servers()))) {
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(before))).all()
                    .get(20, TimeUnit.SECONDS);
        }
    }

    @Test
    void reportsNoCheckpointThatCouldNotBeWritten() throws Exception {
        write(0, 1000, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build();
                KafkaLearner learner = settings(model, adam).open()) {
            Path checkpoints = directory.resolve("checkpoints");
            Files.move(checkpoints, directory.resolve("elsewhere"));
            Files.createFile(checkpoints);
            assertThatThrownBy(() -> learn(learner, 1000)).isInstanceOf(CheckpointException.class);
            assertThat(learner.report().records()).isZero();
        }
    }

    @Test
    void publishesNothingOnceNoRecordIsHeldOut() {
        write(0, 1000, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).build()) {
            try (KafkaLearner learner = KafkaLearner.of(cluster, topic, CODEC)
                    .model(model, Loss.crossEntropy(), adam).classes(2).checkpoints(directory.resolve("checkpoints"))
                    .checkpointEvery(1000, Duration.ofSeconds(1)).holdOut(10, 100, 50).open()) {
                learn(learner, 1000);
                assertThat(learner.report().loss()).as("the window is filled").isNotNaN();
            }
            write(1000, 2000, false);
            try (KafkaLearner learner = settings(model, adam).holdOut(0, 100, 50).open()) {
                learn(learner, 2000);
                assertThat(learner.report().published()).isEqualTo(-1);
            }
        }
    }

    @Test
    void keepsLearningWhileAnotherModelServes() {
        write(0, 2000, false);
        try (Layer model = Linear.of(2, 2, Generator.seeded(3)); Optimizer adam = Adam.over(model).rate(0.05).build();
                Layer one = Linear.of(2, 1, Generator.seeded(3));
                ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            // A single column: cross-entropy cannot measure it where a row is of class 1.
            publisher.publish("two", 5, one, ModelDescription.of(OneColumn.class, Map.of()).metadata());
            try (KafkaLearner learner = settings(model, adam).open()) {
                learn(learner, 2000);
                assertThat(learner.report().servedLoss()).isNaN();
                assertThat(learner.report().loss()).isLessThan(0.6);
                assertThat(learner.report().published()).isEqualTo(-1);
            }
        }
    }

    /** One column of two numbers. */
    public static final class OneColumn implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return Linear.of(2, 1, generator);
        }
    }
}
