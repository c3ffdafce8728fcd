package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.StepsElsewhere;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(Broker.class)
@Timeout(120)
class KafkaGossipTest {
    private static void converge(KafkaGossip a, KafkaGossip b, double tolerance) {
        try (GossipSite first = new GossipSite(a, 0); GossipSite second = new GossipSite(b, 1)) {
            long end = System.nanoTime() + Duration.ofSeconds(40).toNanos();
            while (a.mixed() < 30 || b.mixed() < 30) {
                assertThat(System.nanoTime()).isLessThan(end);
                first.step();
                second.step();
            }
            for (GossipSite site : new GossipSite[] {first, second}) {
                assertThat(site.weights()[0]).isCloseTo(3, within((float) tolerance));
                assertThat(site.weights()[1]).isCloseTo(-2, within((float) tolerance));
            }
        }
    }

    @Test
    void namesTheCallThatNeedsAStart() {
        try (KafkaGossip gossip = KafkaGossip.of(KafkaCluster.at("localhost:9"), "weights", "a").build()) {
            assertThatThrownBy(gossip::afterStep).isInstanceOf(IllegalStateException.class)
                    .hasMessageStartingWith("afterStep needs").hasMessageContaining("call start first");
            assertThatThrownBy(gossip::conclude).isInstanceOf(IllegalStateException.class)
                    .hasMessageStartingWith("conclude needs").hasMessageContaining("call start first");
        }
    }

    @Test
    void convergesOverABroker(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        converge(KafkaGossip.of(cluster, topic, "a").period(5).build(),
                KafkaGossip.of(cluster, topic, "b").period(5).build(), 0.05);
    }

    @Test
    void convergesWithHalfTheBytes(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        converge(KafkaGossip.of(cluster, topic, "a").period(5).half().build(),
                KafkaGossip.of(cluster, topic, "b").period(5).half().compression("lz4").build(), 0.1);
    }

    @Test
    void startsWithTheWeightsOfASiteThatTrains(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 2);
        try (GossipSite first = new GossipSite(KafkaGossip.of(cluster, topic, "a").period(1).build(), 0)) {
            for (int i = 0; i < 20; i++) {
                first.step();
            }
            first.gossip.conclude();
            first.gossip.finish();
            KafkaGossip late = KafkaGossip.of(cluster, topic, "b").build();
            try (GossipSite second = new GossipSite(late, 1)) {
                assertThat(first.gossip.published()).isPositive();
                assertThat(second.weights()).isEqualTo(first.weights());
            }
        }
    }

    @Test
    void ignoresStaleMalformedAndForeignUpdates(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        KafkaGossip gossip = KafkaGossip.of(cluster, topic, "a").period(3).staleness(Duration.ofSeconds(10)).build();
        try (GossipSite site = new GossipSite(gossip, 0); Layer other = Linear.of(3, 1, Generator.seeded(1));
                Layer broken = Linear.of(2, 1, Generator.seeded(1));
                Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            try (Scope scope = Scope.open("nan")) {
                broken.state().get("bias").set(Tensor.full(DType.F32, Double.NaN, 1));
            }
            send(producer, topic, "wrong", other.state(), 0);
            send(producer, topic, "nan", broken.state(), 0);
            send(producer, topic, "late", site.model.state(), 60_000);
            sendIntegers(producer, topic);
            sendGreatNumbers(producer, topic);
            sendChanged(producer, topic, "large", part -> new byte[400 * 1024]);
            sendChanged(producer, topic, "damaged", part -> {
                part[part.length - 1] ^= 1;
                return part;
            });
            send(producer, topic, "n".repeat(201), site.model.state(), 0);
            Records.write(cluster, topic, 1, new byte[10]);
            long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (gossip.stale() == 0 || gossip.refused() < 8) {
                assertThat(System.nanoTime()).as(gossip.refused() + " refused").isLessThan(end);
                site.step();
            }
            assertThat(gossip.mixed()).isZero();
            assertThat(gossip.refused()).isEqualTo(8);
        }
    }

    /** Sends weights of the right names and shapes that are whole numbers. */
    private static void sendIntegers(Producer<byte[], byte[]> producer, String topic) {
        try (Scope scope = Scope.open("integers");
                Parameter weight = Parameter.buffer(Tensor.of(new long[] {1, 2}, 1, 2));
                Parameter bias = Parameter.buffer(Tensor.of(new long[] {3}, 1))) {
            send(producer, topic, "integers", Map.of("weight", weight, "bias", bias), 0);
        }
    }

    /** Sends weights that are finite in f64, but not in the model's f32. */
    private static void sendGreatNumbers(Producer<byte[], byte[]> producer, String topic) {
        try (Scope scope = Scope.open("f64");
                Parameter weight = Parameter.buffer(Tensor.full(DType.F64, 1e300, 1, 2));
                Parameter bias = Parameter.buffer(Tensor.full(DType.F64, 0, 1))) {
            send(producer, topic, "great", Map.of("weight", weight, "bias", bias), 0);
        }
    }

    /** Sends weights whose first part does not match the checksum in its header. */
    private static void sendChanged(Producer<byte[], byte[]> producer, String topic, String site,
            UnaryOperator<byte[]> change) {
        try (Layer model = Linear.of(2, 1, Generator.seeded(1))) {
            var part = SiteUpdate.parts(topic, site, 1, 0.5, model.state()).getFirst();
            producer.send(new ProducerRecord<>(topic, null, System.currentTimeMillis(), part.key(),
                    change.apply(part.value()), part.headers()));
            producer.flush();
        }
    }

    @Test
    void forgetsASiteWhoseClockIsAhead(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        KafkaGossip gossip = KafkaGossip.of(cluster, topic, "a").period(1).staleness(Duration.ofMillis(200)).build();
        try (GossipSite site = new GossipSite(gossip, 0);
                Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            send(producer, topic, "ahead", site.model.state(), -60_000);
            long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (gossip.mixed() + gossip.stale() == 0) {
                assertThat(System.nanoTime()).isLessThan(end);
                site.step();
            }
            while (gossip.others() > 0) {
                assertThat(System.nanoTime()).isLessThan(end);
                site.step();
            }
        }
    }

    private static void send(Producer<byte[], byte[]> producer, String topic, String site, Map<String, Parameter> state,
            long ageMs) {
        for (var part : SiteUpdate.parts(topic, site, 1, 0.5, state)) {
            producer.send(new ProducerRecord<>(topic, null,
                    System.currentTimeMillis() - ageMs, part.key(), part.value(), part.headers()));
        }
        producer.flush();
    }

    /** A rank of two whose peer was lost: an elastic strategy returns without a sum. */
    private static final class PeerLost extends SingleProcess {
        @Override
        public int rank() {
            return 1;
        }

        @Override
        public int world() {
            return 2;
        }
    }

    @Test
    void keepsItsWeightsWhenTheOtherRankIsLostMeanwhile() {
        KafkaCluster nowhere = KafkaCluster.at("127.0.0.1:1");
        KafkaGossip gossip = KafkaGossip.of(nowhere, "weights", "a").period(1).around(new PeerLost()).build();
        try (GossipSite site = new GossipSite(gossip, 0)) {
            float[] before = site.weights();
            site.step();
            assertThat(site.weights()[1]).as("not a zero of the sum").isEqualTo(before[1]);
        }
    }

    /** A process that is rank 1 until rank 0 is lost. */
    private static final class Successor extends SingleProcess {
        private int rank = 1;

        @Override
        public int rank() {
            return rank;
        }
    }

    @Test
    void doesNotWaitForTheBrokersAtEachExchange() {
        KafkaCluster away = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(1));
        Successor process = new Successor();
        KafkaGossip gossip = KafkaGossip.of(away, "weights", "a").period(1).around(process).build();
        try (GossipSite site = new GossipSite(gossip, 0)) {
            process.rank = 0;
            site.step();
            long start = System.nanoTime();
            for (int i = 0; i < 5; i++) {
                site.step();
            }
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
        }
    }

    @Test
    void countsNoPublicationThatHasFailed(EmbeddedBroker broker) throws Exception {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        Broker.limit(broker, topic, 100);
        try (GossipSite site = new GossipSite(KafkaGossip.of(cluster, topic, "a").period(1).build(), 0)) {
            site.step();
            site.gossip.conclude();
            assertThat(site.gossip.published()).as("the last one, which is in flight").isEqualTo(1);
        }
    }

    /** Saves no checkpoints, as a rank 0 that is cut off, and counts how often it is closed. */
    private static final class CutOff extends SingleProcess {
        private int closed;

        @Override
        public boolean savesCheckpoints() {
            return false;
        }

        @Override
        public void close() {
            closed++;
        }
    }

    @Test
    void closesOnAThreadThatIsInterrupted(EmbeddedBroker broker) {
        CutOff processes = new CutOff();
        KafkaGossip gossip = KafkaGossip.of(Broker.cluster(broker), Broker.topic(broker, "weights", 1), "a")
                .around(processes).build();
        try (GossipSite site = new GossipSite(gossip, 0)) {
            Thread.currentThread().interrupt();
            gossip.close();
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
            assertThat(processes.closed).isEqualTo(1);
        }
    }

    /** Returns the threads of all producers in this process. */
    private static Set<Thread> senders() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("kafka-producer-network-thread"))
                .collect(Collectors.toSet());
    }

    /** As where a run has failed, and the strategy is used for another one. */
    @Test
    void aSecondStartClosesTheClientsOfTheFirst(EmbeddedBroker broker) {
        KafkaGossip gossip = KafkaGossip.of(Broker.cluster(broker), Broker.topic(broker, "weights", 1), "a").build();
        Set<Thread> before = senders();
        try (GossipSite site = new GossipSite(gossip, 0)) {
            gossip.start(TrainingState.of(site.model, site.optimizer));
            assertThat(senders()).filteredOn(thread -> !before.contains(thread)).hasSize(1);
        }
        assertThat(senders()).filteredOn(thread -> !before.contains(thread)).isEmpty();
    }

    @Test
    void savesCheckpointsOnlyWhereItsProcessesDo() {
        KafkaGossip.Builder site = KafkaGossip.of(KafkaCluster.at("127.0.0.1:1"), "weights", "a");
        assertThat(site.build().savesCheckpoints()).isTrue();
        assertThat(site.around(new CutOff()).build().savesCheckpoints()).isFalse();
    }

    @Test
    void logsAStrangersTextInOneShortLine() {
        assertThat(SiteLink.printable("a\nb\u001b[31m and more", 8)).isEqualTo("a?b?[31m");
        assertThat(SiteLink.printable("short", 8)).isEqualTo("short");
    }

    @Test
    void countsStepsOfTheRunNotOfTheProcess(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        try (GossipSite site = new GossipSite(KafkaGossip.of(cluster, topic, "a").period(5).build(), 0)) {
            // As a rank that joins at step 3.
            site.optimizer.resume(3);
            site.step();
            assertThat(site.gossip.published()).isZero();
            site.step();
            assertThat(site.gossip.published()).isEqualTo(1);
        }
    }

    private static final class Server extends SingleProcess implements StepsElsewhere {
        @Override
        public boolean stepsElsewhere() {
            return true;
        }
    }

    @Test
    void refusesAParameterServerWithinASite() {
        KafkaGossip gossip = KafkaGossip.of(KafkaCluster.at("127.0.0.1:1"), "weights", "a")
                .around(new Server()).build();
        assertThatThrownBy(() -> new GossipSite(gossip, 0)).isInstanceOf(StreamException.class)
                .hasMessageContaining("use ring or gossip within the site");
    }

    @Test
    void refusesAStalenessThatKafkaCannotLookUp() {
        KafkaGossip.Builder site = KafkaGossip.of(KafkaCluster.at("127.0.0.1:1"), "weights", "a");
        for (Duration staleness : List.of(Duration.ZERO, Duration.ofDays(36_500), ChronoUnit.FOREVER.getDuration())) {
            assertThatThrownBy(() -> site.staleness(staleness)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("1 ms to 3650 days, got " + staleness);
        }
    }

    @Test
    void cutsLargeModelsIntoParts(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        try (Layer large = Linear.of(700, 500, Generator.seeded(1));
                Producer<byte[], byte[]> producer = cluster.producer(Map.of("compression.type", "zstd"))) {
            send(producer, topic, "a", large.state(), 0);
            SiteUpdate.Assembly assembly = new SiteUpdate.Assembly("a", 10_000_000);
            SiteUpdate update = null;
            for (var record : Records.read(cluster, topic, 3)) {
                update = assembly.add(record);
            }
            assertThat(update.mass()).isEqualTo(0.5);
            try (Scope scope = Scope.open("compare")) {
                assertThat(update.weights().tensor("weight").toFloats())
                        .isEqualTo(large.state().get("weight").value().toFloats());
            }
            update.close();
            SiteUpdate.Assembly small = new SiteUpdate.Assembly("a", 600_000);
            var records = Records.read(cluster, topic, 3);
            assertThat(small.add(records.get(0))).isNull();
            assertThatThrownBy(() -> small.add(records.get(1))).isInstanceOf(StreamException.class)
                    .hasMessageContaining("part 1 of 3 has 524288 bytes").hasMessageContaining("in all 600000");
            assertThat(small.add(records.get(2))).as("the rest of a refused publication").isNull();
        }
    }

    @Test
    void reportsWithinTheDeadlineThatTheBrokerDoesNotAnswer() {
        KafkaCluster away = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(2));
        long start = System.nanoTime();
        assertThatThrownBy(() -> new GossipSite(KafkaGossip.of(away, "weights", "a").build(), 0))
                .isInstanceOf(StreamException.class).hasMessageContaining("127.0.0.1:1 have not answered within 2.0 s");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(8));
    }
}
