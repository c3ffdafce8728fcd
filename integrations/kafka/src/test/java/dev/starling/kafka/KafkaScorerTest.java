package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Sha256;
import dev.starling.nn.layer.Linear;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

@ExtendWith(Broker.class)
@Timeout(120)
class KafkaScorerTest {
    private static final RowCodec CODEC = RowCodec.floats(SumModel.COLUMNS);

    @TempDir
    Path directory;
    private KafkaCluster cluster;
    private String in;
    private String out;
    private String dead;
    private String models;

    @BeforeEach
    void topics(EmbeddedBroker broker) {
        cluster = Broker.cluster(broker);
        in = Broker.topic(broker, "in", 2);
        out = Broker.topic(broker, "out", 1);
        dead = Broker.topic(broker, "dead", 1);
        models = Broker.topic(broker, "models", 1);
    }

    private ModelVersion publish(long version) {
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory);
                Layer model = SumModel.ofVersion(version)) {
            return publisher.publish("sum", version, model, SumModel.metadata());
        }
    }

    private void announce(ModelVersion version) {
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            publisher.announce(version);
        }
    }

    private KafkaScorer.Builder scorer() {
        return KafkaScorer.of(cluster, CODEC).from(in).to(out).deadLetters(dead).model(ModelTopic.of(models, "sum"))
                .group("group-" + in);
    }

    private static void drive(KafkaScorer scorer, BooleanSupplier done) {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!done.getAsBoolean()) {
            assertThat(System.nanoTime()).as("deadline; " + scorer.counts()).isLessThan(end);
            scorer.step();
        }
    }

    @Test
    void leavesDraftsOfOthersAloneAndNoneOfItsOwn() throws Exception {
        // Of a process with the same number, in another container.
        Path foreign = Files.writeString(directory.resolve("sum-1-" + ProcessHandle.current().pid() + ".draft"),
                "half");
        Path file = Path.of(publish(1).uri());
        assertThat(foreign).hasContent("half");
        Files.delete(file);
        Files.createFile(Files.createDirectory(file).resolve("no file can take this place"));
        assertThatThrownBy(() -> publish(1)).isInstanceOf(StreamException.class)
                .hasMessageContaining("sum version 1 cannot be written to " + directory);
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory);
                Layer model = SumModel.ofVersion(1)) {
            String name = "n".repeat(300);
            assertThatThrownBy(() -> publisher.publish(name, 1, model, Map.of())).isInstanceOf(StreamException.class)
                    .hasMessageContaining(name + " version 1 cannot be written to " + directory);
        }
        try (Stream<Path> files = Files.list(directory)) {
            assertThat(files).containsExactlyInAnyOrder(foreign, file);
        }
    }

    @Test
    void keepsTheSettingsOfTheTimeWhenItWasOpened() {
        KafkaScorer.Builder builder = scorer().group("g").batch(7, Duration.ofMillis(3));
        KafkaScorer.Builder config = builder.copy();
        builder.to("elsewhere").group("h").instance("2").batch(8, Duration.ofMillis(4)).compression("none");
        assertThat(config.to).isEqualTo(out);
        assertThat(config.group).isEqualTo("g");
        assertThat(config.instance).isEqualTo("1");
        assertThat(config.batch).isEqualTo(7);
        assertThat(config.latency).isEqualTo(Duration.ofMillis(3));
        assertThat(config.compression).isEqualTo("lz4");
    }

    @Test
    void scoresEachRecordOnceAndSwapsBetweenBatches() {
        publish(1);
        Records.write(cluster, in, 0, 3000);
        try (KafkaScorer scorer = scorer().batch(256, Duration.ofMillis(5)).open()) {
            drive(scorer, () -> scorer.counts().scored() >= 1000);
            publish(2);
            drive(scorer, () -> scorer.serving().version() == 2);
            Records.write(cluster, in, 3000, 4000);
            drive(scorer, () -> scorer.counts().scored() == 4000);
            assertThat(scorer.counts().dead()).isZero();
            assertThat(scorer.counts().batches()).isLessThan(400);
        }
        Tally tally = new Tally(4000);
        Records.read(cluster, out, 4000).forEach(tally::add);
        tally.requireEachOnce();
        assertThat(tally.versions()).containsOnlyKeys(1L, 2L);
    }

    @Test
    void deadLettersWhatCannotBeDecodedWithItsPlace() {
        publish(1);
        Records.write(cluster, in, 1, new byte[7]);
        Records.write(cluster, in, 2, CODEC.encode(new float[] {1, Float.NaN, 3, 4}, 0, 4));
        Records.write(cluster, in, 3, CODEC.encode(new float[] {1, 2, 3}, 0, 3));
        Records.write(cluster, in, 4, (byte[]) null);
        Records.write(cluster, in, 5, 6);
        List<ConsumerRecord<byte[], byte[]>> sources = Records.read(cluster, in, 5);
        try (KafkaScorer scorer = scorer().open()) {
            drive(scorer, () -> scorer.counts().scored() == 1 && scorer.counts().dead() == 4);
        }
        List<ConsumerRecord<byte[], byte[]>> letters = Records.read(cluster, dead, 4);
        assertThat(letters).hasSize(4);
        for (ConsumerRecord<byte[], byte[]> letter : letters) {
            long id = Records.id(letter.key());
            ConsumerRecord<byte[], byte[]> source = sources.stream().filter(r -> Records.id(r.key()) == id).findFirst()
                    .orElseThrow();
            assertThat(letter.value()).isEqualTo(source.value());
            assertThat(Records.header(letter, StreamHeaders.TOPIC)).isEqualTo(in);
            assertThat(Records.header(letter, StreamHeaders.PARTITION)).isEqualTo("" + source.partition());
            assertThat(Records.header(letter, StreamHeaders.OFFSET)).isEqualTo("" + source.offset());
            assertThat(Records.header(letter, StreamHeaders.ERROR)).contains(switch ((int) id) {
                case 1 -> "16 bytes, 4 floats, got 7 bytes";
                case 2 -> "finite, got NaN in column 1";
                case 3 -> "got 12 bytes";
                default -> "no value";
            });
        }
        assertThat(Records.read(cluster, out, 1)).hasSize(1);
    }

    @Test
    void servesTheOldModelWhenTheNewOneIsRefused() throws Exception {
        ModelVersion good = publish(1);
        try (KafkaScorer scorer = scorer().open()) {
            ModelVersion torn = publish(2);
            drive(scorer, () -> scorer.serving().version() == 2);
            byte[] bytes = Files.readAllBytes(Path.of(torn.uri()));
            bytes[bytes.length - 1] ^= 1;
            Path damaged = Files.write(directory.resolve("damaged.safetensors"), bytes);
            announce(new ModelVersion("sum", 3, damaged.toString(), good.sha256()));
            announce(new ModelVersion("sum", 4, directory.resolve("absent").toString(), good.sha256()));
            drive(scorer, () -> scorer.counts().refused() == 2);
            Records.write(cluster, in, 0, 10);
            drive(scorer, () -> scorer.counts().scored() == 10);
            assertThat(scorer.serving().version()).isEqualTo(2);
            assertThat(Records.header(Records.read(cluster, dead, 2).getFirst(), StreamHeaders.ERROR))
                    .contains("sum version 3", damaged.toString(), Sha256.of(bytes), good.sha256());
            assertThat(Records.header(Records.read(cluster, dead, 2).getLast(), StreamHeaders.ERROR))
                    .contains("sum version 4", "absent", "cannot be read");
            assertThat(Records.header(Records.read(cluster, dead, 2).getFirst(), StreamHeaders.TOPIC))
                    .isEqualTo(models);
        }
        Records.read(cluster, out, 10).forEach(r ->
                assertThat(Records.header(r, StreamHeaders.VERSION)).isEqualTo("2"));
    }

    @Test
    void refusesModelsThatDoNotFit() {
        publish(1);
        try (KafkaScorer scorer = scorer().open();
                ModelPublisher publisher = ModelPublisher.of(cluster, models, directory);
                Layer wide = Linear.of(5, 1, Generator.seeded(1))) {
            publisher.publish("sum", 2, wide, SumModel.metadata());
            publisher.publish("sum", 3, wide, Map.of());
            publisher.publish("sum", 4, wide, Map.of("model.factory", "java.lang.Runtime"));
            publisher.publish("other", 9, wide, Map.of());
            Records.write(cluster, models, 1, "{\"name\":".getBytes(StandardCharsets.UTF_8));
            drive(scorer, () -> scorer.counts().refused() == 4);
            assertThat(scorer.serving().version()).isEqualTo(1);
            List<String> errors = Records.read(cluster, dead, 4).stream()
                    .map(r -> Records.header(r, StreamHeaders.ERROR)).toList();
            assertThat(errors.get(0)).contains("sum version 2", "does not fit rows of 4 numbers");
            assertThat(errors.get(1)).contains("sum version 3", "model.factory");
            assertThat(errors.get(2)).contains("java.lang.Runtime must be public and implement ModelFactory");
            assertThat(errors.get(3)).contains("must be a JSON object");
        }
    }

    @Test
    void fallsBackToTheLastVersionThatCanBeServedAtTheStart() {
        ModelVersion good = publish(7);
        announce(new ModelVersion("sum", 8, good.uri(), "0".repeat(64)));
        try (KafkaScorer scorer = scorer().open()) {
            assertThat(scorer.serving()).isEqualTo(good);
            drive(scorer, () -> scorer.counts().refused() == 1);
        }
    }

    @Test
    void findsTheAnnouncementBeforeMoreOfAnotherModel() {
        ModelVersion only = publish(1);
        byte[] other = new ModelVersion("other", 1, "absent", "0".repeat(64)).toJson();
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            for (int id = 0; id < 1001; id++) {
                producer.send(new ProducerRecord<>(models, Records.key(id), other));
            }
        }
        try (KafkaScorer scorer = scorer().open()) {
            assertThat(scorer.serving()).isEqualTo(only);
        }
    }

    @Test
    void stopsWhenAnotherInstanceStarts() throws Exception {
        // So that a heartbeat, too, can find out that the first is fenced.
        cluster = cluster.with("heartbeat.interval.ms", "50");
        publish(1);
        Records.write(cluster, in, 0, 10);
        try (KafkaScorer first = scorer().open()) {
            drive(first, () -> first.counts().scored() == 10);
            try (KafkaScorer second = scorer().open()) {
                Records.write(cluster, in, 10, 20);
                drive(second, () -> second.counts().scored() == 10);
                Thread.sleep(200);
                assertThatThrownBy(first::run).isInstanceOf(StreamException.class).hasMessageContaining("must stop");
                assertThatThrownBy(first::step).isInstanceOf(StreamException.class).hasMessageContaining("has ended");
            }
        }
        Tally tally = new Tally(20);
        Records.read(cluster, out, 20).forEach(tally::add);
        tally.requireEachOnce();
    }

    @Test
    void reportsThatNoModelIsAnnounced() {
        assertThatThrownBy(() -> scorer().open()).isInstanceOf(StreamException.class)
                .hasMessageContaining("no version of sum on topic " + models + " at " + cluster
                        + " can be served: none is announced");
        assertThatThrownBy(() -> scorer().from("absent").open()).isInstanceOf(StreamException.class)
                .hasMessageContaining("no topic absent");
    }

    @Test
    void keepsKeyHeadersAndCodecOfJson() {
        publish(3);
        Records.write(cluster, in, 1, "[1, 2.5e0, -3, 0]".getBytes(StandardCharsets.UTF_8));
        Records.write(cluster, in, 2, "[1, 2, 3]".getBytes(StandardCharsets.UTF_8));
        Records.write(cluster, in, 3, "[1, 2, NaN, 4]".getBytes(StandardCharsets.UTF_8));
        try (KafkaScorer scorer = KafkaScorer.of(cluster, RowCodec.json(4)).from(in).to(out).deadLetters(dead)
                .model(ModelTopic.of(models, "sum")).group("group-" + in).open()) {
            drive(scorer, () -> scorer.counts().scored() == 1 && scorer.counts().dead() == 2);
        }
        ConsumerRecord<byte[], byte[]> result = Records.read(cluster, out, 1).getFirst();
        assertThat(new String(result.value(), StandardCharsets.UTF_8)).isEqualTo("[10.5]");
        assertThat(Records.id(result.key())).isEqualTo(1);
        assertThat(Records.header(result, StreamHeaders.MODEL)).isEqualTo("sum");
        assertThat(Records.header(result, StreamHeaders.VERSION)).isEqualTo("3");
    }

    @Test
    void deadLettersRecordsOfTheGreatestSize() {
        publish(1);
        byte[] key = new byte[1_048_400];
        try (Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            // As large as the brokers take: with another header, neither a result nor a dead letter can be.
            producer.send(new ProducerRecord<>(in, 0, Records.key(1), new byte[1_048_400]));
            producer.send(new ProducerRecord<>(in, 0, key, CODEC.encode(SumModel.row(2), 0, 4)));
            producer.send(new ProducerRecord<>(in, 0, Records.key(3), CODEC.encode(SumModel.row(3), 0, 4)));
        }
        try (KafkaScorer scorer = scorer().open()) {
            drive(scorer, () -> scorer.counts().scored() == 1 && scorer.counts().dead() == 2);
            assertThat(scorer.counts().aborted()).isZero();
        }
        List<ConsumerRecord<byte[], byte[]>> letters = Records.read(cluster, dead, 2);
        assertThat(Records.id(letters.getFirst().key())).isEqualTo(1);
        assertThat(letters.getFirst().value()).isNull();
        assertThat(Records.header(letters.getFirst(), StreamHeaders.OMITTED)).isEqualTo("value of 1048400 bytes");
        assertThat(Records.header(letters.getFirst(), StreamHeaders.ERROR)).contains("got 1048400 bytes");
        assertThat(Records.header(letters.getLast(), StreamHeaders.OMITTED)).isEqualTo("key of 1048400 bytes");
        assertThat(Records.header(letters.getLast(), StreamHeaders.ERROR)).contains("max.request.size is 1048576");
        assertThat(Records.header(letters.getLast(), StreamHeaders.OFFSET)).isEqualTo("1");
        assertThat(letters.getLast().value()).hasSize(16);
    }

    /** Fails on rows that begin with 13 while the flag is set. */
    private static final class FailsOnThirteen implements Layer {
        private static final AtomicBoolean FAILS = new AtomicBoolean(true);

        @Override
        public Tensor forward(Tensor input) {
            for (float number : input.toFloats()) {
                if (number == 13 && FAILS.get()) {
                    throw new IllegalStateException("unlucky");
                }
            }
            return input.add(0);
        }
    }

    @Test
    void sendsNothingOfABatchThatTheModelFailsOn() {
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            publisher.publish("sum", 1, new FailsOnThirteen(), Map.of());
        }
        Records.write(cluster, in, 1, CODEC.encode(new float[] {13, 0, 0, 0}, 0, 4));
        try (KafkaScorer scorer = scorer().model(ModelTopic.of(models, "sum").factory(FailsOnThirteen::new)).open()) {
            assertThatThrownBy(() -> drive(scorer, () -> false)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("on topic " + in).hasMessageContaining(": 1]")
                    .hasMessageContaining("sum version 1 failed on 1 rows").hasMessageContaining("unlucky");
            FailsOnThirteen.FAILS.set(false);
            drive(scorer, () -> scorer.counts().scored() == 1);
            assertThat(scorer.counts()).isEqualTo(new ScorerCounts(1, 0, 0, 1, 0));
        }
        assertThat(Records.read(cluster, out, 1)).hasSize(1);
    }

    /** Stores the size of the largest batch, and fails on the first one. */
    private static final class MeasuresBatches implements Layer {
        private static final int TRIAL_ROWS = 2;
        private static final AtomicInteger LARGEST = new AtomicInteger();

        @Override
        public Tensor forward(Tensor input) {
            int rows = (int) input.size(0);
            if (rows > TRIAL_ROWS && LARGEST.getAndAccumulate(rows, Math::max) == 0) {
                throw new IllegalStateException("the first batch");
            }
            return input.add(0);
        }
    }

    @Test
    void scoresNoMoreRecordsThanABatchHasRoomFor(EmbeddedBroker broker) {
        in = Broker.topic(broker, "in", 1);
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory)) {
            publisher.publish("sum", 1, new MeasuresBatches(), Map.of());
        }
        Records.write(cluster, in, 0, 60);
        try (KafkaScorer scorer = scorer().model(ModelTopic.of(models, "sum").factory(MeasuresBatches::new))
                .batch(100, Duration.ofMillis(200)).open()) {
            assertThatThrownBy(() -> drive(scorer, () -> false)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("the first batch");
            // Received in one poll, beside the 60 that wait for their second attempt.
            Records.write(cluster, in, 60, 160);
            drive(scorer, () -> scorer.counts().scored() == 160);
            assertThat(scorer.counts().batches()).isGreaterThan(1);
        }
        assertThat(MeasuresBatches.LARGEST.get()).isLessThanOrEqualTo(100);
        assertThat(Records.read(cluster, out, 160)).extracting(r -> Records.id(r.key())).hasSize(160)
                .doesNotHaveDuplicates();
    }

    @Test
    void waitsForAFullBatchHoweverLongTheLatencyIs() {
        publish(1);
        Records.write(cluster, in, 0, 10);
        try (KafkaScorer scorer = scorer().batch(11, ChronoUnit.FOREVER.getDuration()).open()) {
            CompletableFuture<Void> running = CompletableFuture.runAsync(scorer::run);
            assertThatThrownBy(() -> running.get(1, TimeUnit.SECONDS)).isInstanceOf(TimeoutException.class);
            assertThat(scorer.counts().scored()).isZero();
            Records.write(cluster, in, 10, 12);
            long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (scorer.counts().scored() < 11) {
                assertThat(System.nanoTime()).as("deadline; " + scorer.counts()).isLessThan(end);
                Thread.onSpinWait();
            }
            scorer.close();
            running.join();
        }
    }

    @Test
    void namesATopicThatWasDeleted(EmbeddedBroker broker) throws Exception {
        publish(1);
        cluster = cluster.deadline(Duration.ofSeconds(3));
        try (KafkaScorer scorer = scorer().open();
                Admin admin = Admin.create(Map.of("bootstrap.servers", broker.servers()))) {
            admin.deleteTopics(List.of(in, models)).all().get(20, TimeUnit.SECONDS);
            assertThatThrownBy(() -> drive(scorer, () -> false)).isInstanceOf(StreamException.class)
                    .hasMessage("there is no topic " + in + " at the brokers at " + broker.servers()
                            + "; create it first");
        }
        assertThatThrownBy(() -> announce(new ModelVersion("sum", 2, "file", "0".repeat(64))))
                .isInstanceOf(StreamException.class).hasMessageContaining("Topic " + models + " not present")
                .hasMessageContaining("check the address, the network, that a broker runs and that the topics exist");
    }

    @Test
    void namesTheTransactionsOfEachScorerDifferently() {
        assertThat(scorer().group("scores").instance("eu-1").transactionalId())
                .isNotEqualTo(scorer().group("scores-eu").instance("1").transactionalId());
        assertThatThrownBy(() -> scorer().instance("eu/1").open()).isInstanceOf(StreamException.class)
                .hasMessageContaining("a consumer of " + cluster + " cannot be created");
    }

    @Test
    void continuesToWatchAfterAnErrorOfALoader() {
        publish(1);
        ModelStore store = uri -> {
            if (uri.equals("broken")) {
                throw new NoClassDefFoundError("org/example/Absent");
            } else if (uri.equals("asserting")) {
                throw new AssertionError("there is no such store");
            }
            return ModelStore.files().read(uri);
        };
        try (KafkaScorer scorer = scorer().model(ModelTopic.of(models, "sum").store(store)).open()) {
            announce(new ModelVersion("sum", 2, "broken", "0".repeat(64)));
            announce(new ModelVersion("sum", 3, "asserting", "0".repeat(64)));
            publish(4);
            drive(scorer, () -> scorer.serving().version() == 4 && scorer.counts().refused() == 2);
        }
        List<ConsumerRecord<byte[], byte[]>> letters = Records.read(cluster, dead, 2);
        assertThat(Records.header(letters.getFirst(), StreamHeaders.ERROR))
                .contains("NoClassDefFoundError", "org/example/Absent");
        assertThat(Records.header(letters.getLast(), StreamHeaders.ERROR))
                .contains("AssertionError", "there is no such store");
    }
}
