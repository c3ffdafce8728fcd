package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Brokers that never were there, and one that goes away: a clear error within the deadline, never a hang. */
@Timeout(60)
class BrokerAwayTest {
    private static final KafkaCluster AWAY = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(2))
            .with("sasl.jaas.config", "secret");

    @TempDir
    Path directory;

    private static void within(Duration longest, Runnable body) {
        long start = System.nanoTime();
        body.run();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(longest);
    }

    @Test
    void shouldSayThatNoBrokerAnswers() {
        within(Duration.ofSeconds(15), () -> {
            assertThatThrownBy(() -> scorer(AWAY).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("the brokers at 127.0.0.1:1 have not answered within 2.0 s")
                    .hasMessageNotContaining("secret");
            assertThatThrownBy(() -> StreamScoring.open(AWAY, RowCodec.floats(4), ModelTopic.of("models", "sum")))
                    .isInstanceOf(StreamException.class).hasMessageContaining("have not answered");
            try (Layer model = CountingModel.create(2); Optimizer optimizer = CountingModel.optimizer(model)) {
                assertThatThrownBy(() -> LearnerProcess.settings(AWAY, "t", directory, 1, model, optimizer).open())
                        .isInstanceOf(StreamException.class).hasMessageContaining("have not answered");
                try (ModelPublisher publisher = ModelPublisher.of(AWAY, "models", directory)) {
                    assertThatThrownBy(() -> publisher.publish("sum", 1, model, Map.of()))
                            .isInstanceOf(StreamException.class).hasMessageContaining("the announcement of sum");
                }
            }
        });
        assertThat(AWAY.toString()).doesNotContain("secret");
        assertThatThrownBy(() -> scorer(KafkaCluster.at("no such:address")).open())
                .isInstanceOf(StreamException.class).hasMessageContaining("cannot be made");
    }

    private static KafkaScorer.Builder scorer(KafkaCluster cluster) {
        return KafkaScorer.of(cluster, RowCodec.floats(SumModel.COLUMNS)).from("in").to("out").deadLetters("dead")
                .model(ModelTopic.of("models", "sum"));
    }

    @Test
    void shouldGoOnWhenTheBrokerComesBackInTime() {
        try (EmbeddedBroker broker = EmbeddedBroker.start()) {
            broker.topics(Map.of("in", 1, "out", 1, "dead", 1, "models", 1));
            KafkaCluster cluster = KafkaCluster.at(broker.servers()).deadline(Duration.ofSeconds(30));
            try (ModelPublisher publisher = ModelPublisher.of(cluster, "models", directory);
                    Layer sum = SumModel.ofVersion(1)) {
                publisher.publish("sum", 1, sum, SumModel.metadata());
            }
            Records.write(cluster, "in", 0, 1000);
            try (KafkaScorer scorer = scorer(cluster).batch(100, Duration.ofMillis(5)).open()) {
                while (scorer.counts().scored() < 300) {
                    scorer.step();
                }
                broker.restart();
                while (scorer.counts().scored() < 1000) {
                    scorer.step();
                }
            }
            Tally tally = new Tally(1000);
            Records.read(cluster, "out", 1000).forEach(tally::take);
            tally.requireEachOnce();
        }
    }

    @Test
    void shouldEndWithinTheDeadlineWhenTheBrokerGoes() {
        try (EmbeddedBroker broker = EmbeddedBroker.start()) {
            broker.topics(Map.of("in", 1, "out", 1, "dead", 1, "models", 1, "labelled", 1));
            KafkaCluster cluster = KafkaCluster.at(broker.servers()).deadline(Duration.ofSeconds(4));
            try (ModelPublisher publisher = ModelPublisher.of(cluster, "models", directory);
                    Layer sum = SumModel.ofVersion(1)) {
                publisher.publish("sum", 1, sum, SumModel.metadata());
            }
            Records.write(cluster, "in", 0, 100);
            try (Layer model = CountingModel.create(2); Optimizer optimizer = CountingModel.optimizer(model);
                    KafkaLearner learner = LearnerProcess.settings(cluster, "labelled", directory, 1, model, optimizer)
                            .open();
                    KafkaScorer scorer = scorer(cluster).open()) {
                while (scorer.counts().scored() < 100) {
                    scorer.step();
                }
                broker.stop();
                within(Duration.ofSeconds(15), () -> assertThatThrownBy(scorer::run)
                        .isInstanceOf(StreamException.class).hasMessageContaining("have not answered"));
                within(Duration.ofSeconds(15), () -> assertThatThrownBy(learner::run)
                        .isInstanceOf(StreamException.class).hasMessageContaining("have not answered"));
            }
        }
    }
}
