package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shaping;
import dev.starling.tensor.Tensor;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Exchanger;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(Broker.class)
@Timeout(120)
class KafkaGossipTest {
    /** One site: it sees only points where one of two numbers is 0, so that alone it learns only one weight. */
    private static final class Site implements AutoCloseable {
        final Layer model = Linear.of(2, 1, Generator.seeded(5));
        final Optimizer optimizer = Sgd.over(model).rate(0.05).build();
        final KafkaGossip gossip;
        final TrainingStep step;
        private final int column;

        Site(KafkaGossip gossip, int column) {
            this.gossip = gossip;
            this.column = column;
            gossip.start(TrainingState.of(model, optimizer));
            step = new TrainingStep(model, Loss.meanSquared(), optimizer, Generator.seeded(1), gossip);
        }

        void step(Generator random) {
            try (Scope scope = Scope.open("site")) {
                Tensor x = random.normal(16, 1);
                Tensor zero = x.mul(0);
                Tensor input = column == 0 ? concat(x, zero) : concat(zero, x);
                step.run(input, x.mul(column == 0 ? 3 : -2));
            }
        }

        private static Tensor concat(Tensor a, Tensor b) {
            return Shaping.concat(1, a, b);
        }

        float[] weights() {
            return model.state().get("weight").value().toFloats();
        }

        @Override
        public void close() {
            step.close();
            gossip.close();
            optimizer.close();
            model.close();
        }
    }

    private static void converge(KafkaGossip a, KafkaGossip b, double tolerance) {
        Generator random = Generator.seeded(9);
        try (Site first = new Site(a, 0); Site second = new Site(b, 1)) {
            long end = System.nanoTime() + Duration.ofSeconds(40).toNanos();
            while (a.mixed() < 30 || b.mixed() < 30) {
                assertThat(System.nanoTime()).isLessThan(end);
                first.step(random);
                second.step(random);
            }
            for (Site site : new Site[] {first, second}) {
                assertThat(site.weights()[0]).isCloseTo(3, within((float) tolerance));
                assertThat(site.weights()[1]).isCloseTo(-2, within((float) tolerance));
            }
        }
    }

    @Test
    void convergesOverTheBrokerAlone(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        converge(KafkaGossip.of(cluster, topic, "a").period(5), KafkaGossip.of(cluster, topic, "b").period(5), 0.05);
    }

    @Test
    void convergesWithHalfTheBytes(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        converge(KafkaGossip.of(cluster, topic, "a").period(5).half(),
                KafkaGossip.of(cluster, topic, "b").period(5).half().compression("lz4"), 0.1);
    }

    @Test
    void beginsWithTheWeightsOfASiteThatTrains(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 2);
        Generator random = Generator.seeded(9);
        try (Site first = new Site(KafkaGossip.of(cluster, topic, "a").period(1), 0)) {
            for (int i = 0; i < 20; i++) {
                first.step(random);
            }
            first.gossip.conclude();
            first.gossip.finish();
            KafkaGossip late = KafkaGossip.of(cluster, topic, "b");
            try (Site second = new Site(late, 1)) {
                assertThat(first.gossip.published()).isPositive();
                assertThat(second.weights()).isEqualTo(first.weights());
            }
        }
    }

    @Test
    void leavesOutWhatIsStaleMalformedOrOfAnotherModel(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        Generator random = Generator.seeded(9);
        KafkaGossip gossip = KafkaGossip.of(cluster, topic, "a").period(3).staleness(Duration.ofSeconds(10));
        try (Site site = new Site(gossip, 0); Layer other = Linear.of(3, 1, Generator.seeded(1));
                Layer broken = Linear.of(2, 1, Generator.seeded(1));
                Producer<byte[], byte[]> producer = cluster.producer(Map.of())) {
            try (Scope scope = Scope.open("nan")) {
                broken.state().get("bias").set(Tensor.full(DType.F32, Double.NaN, 1));
            }
            send(producer, topic, "wrong", other.state(), 0);
            send(producer, topic, "nan", broken.state(), 0);
            send(producer, topic, "late", site.model.state(), 60_000);
            Records.write(cluster, topic, 1, new byte[10]);
            long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (gossip.stale() == 0) {
                assertThat(System.nanoTime()).isLessThan(end);
                site.step(random);
            }
            assertThat(gossip.mixed()).isZero();
        }
    }

    private static void send(Producer<byte[], byte[]> producer, String topic, String site, Map<String, Parameter> state,
            long ageMs) {
        for (var part : SiteNews.parts(topic, site, 1, 0.5, state)) {
            producer.send(new ProducerRecord<>(topic, null,
                    System.currentTimeMillis() - ageMs, part.key(), part.value(), part.headers()));
        }
        producer.flush();
    }

    /** Two ranks in two threads that add up numbers when both have come. */
    private static final class Pair extends SingleProcess {
        private final int rank;
        private final Exchanger<double[]> meeting;

        Pair(int rank, Exchanger<double[]> meeting) {
            this.rank = rank;
            this.meeting = meeting;
        }

        @Override
        public int rank() {
            return rank;
        }

        @Override
        public int world() {
            return 2;
        }

        @Override
        public boolean isSynchronous() {
            return true;
        }

        @Override
        public void sum(double[] values) {
            try {
                double[] others = meeting.exchange(values.clone(), 20, TimeUnit.SECONDS);
                for (int i = 0; i < values.length; i++) {
                    values[i] += others[i];
                }
            } catch (InterruptedException | TimeoutException e) {
                throw new AssertionError(e);
            }
        }
    }

    @Test
    void givesAllRanksOfASiteTheWeightsOfRankZero(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        Exchanger<double[]> meeting = new Exchanger<>();
        CompletableFuture<float[]> other = CompletableFuture.supplyAsync(() -> {
            try (Site site = new Site(KafkaGossip.of(cluster, topic, "a").period(1).around(new Pair(1, meeting)), 1)) {
                site.step(Generator.seeded(2));
                assertThat(site.gossip.published()).isZero();
                return site.weights();
            }
        });
        try (Site site = new Site(KafkaGossip.of(cluster, topic, "a").period(1).around(new Pair(0, meeting)), 0)) {
            site.step(Generator.seeded(1));
            assertThat(site.gossip.published()).isEqualTo(1);
            assertThat(other.join()).isEqualTo(site.weights());
        }
    }

    @Test
    void cutsLargeModelsIntoParts(EmbeddedBroker broker) {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        try (Layer large = Linear.of(700, 500, Generator.seeded(1));
                Producer<byte[], byte[]> producer = cluster.producer(Map.of("compression.type", "zstd"))) {
            send(producer, topic, "a", large.state(), 0);
            SiteNews.Assembly assembly = new SiteNews.Assembly("a");
            SiteNews news = null;
            for (var record : Records.read(cluster, topic, 3)) {
                news = assembly.take(record);
            }
            assertThat(news.mass()).isEqualTo(0.5);
            try (Scope scope = Scope.open("compare")) {
                assertThat(news.weights().tensor("weight").toFloats())
                        .isEqualTo(large.state().get("weight").value().toFloats());
            }
            news.close();
        }
    }

    @Test
    void saysWithinTheDeadlineThatTheBrokerIsAway() {
        KafkaCluster away = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(2));
        long start = System.nanoTime();
        assertThatThrownBy(() -> new Site(KafkaGossip.of(away, "weights", "a"), 0))
                .isInstanceOf(StreamException.class).hasMessageContaining("127.0.0.1:1 have not answered within 2.0 s");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(8));
    }
}
