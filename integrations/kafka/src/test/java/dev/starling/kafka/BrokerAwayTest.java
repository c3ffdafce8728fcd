package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Brokers that never were there, and one that goes away: a clear error within the deadline, never a hang. */
@Timeout(120)
class BrokerAwayTest {
    private static final KafkaCluster AWAY = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(1))
            .with("sasl.jaas.config", "secret");

    @TempDir
    Path directory;

    private static void within(Duration longest, Runnable body) {
        long start = System.nanoTime();
        body.run();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(longest);
    }

    @Test
    void saysThatNoBrokerAnswers() {
        within(Duration.ofSeconds(15), () -> {
            assertThatThrownBy(() -> scorer(AWAY).open()).isInstanceOf(StreamException.class)
                    .hasMessageContaining("the brokers at 127.0.0.1:1 have not answered within 1.0 s")
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
    void goesOnWhenTheBrokerComesBackAndEndsWhenItDoesNot() {
        try (EmbeddedBroker broker = EmbeddedBroker.start()) {
            broker.topics(Map.of("in", 1, "out", 1, "dead", 1, "models", 1, "labelled", 1));
            KafkaCluster cluster = KafkaCluster.at(broker.servers()).deadline(Duration.ofSeconds(6));
            try (ModelPublisher publisher = ModelPublisher.of(cluster, "models", directory);
                    Layer sum = SumModel.ofVersion(1)) {
                publisher.publish("sum", 1, sum, SumModel.metadata());
            }
            Records.write(cluster, "in", 0, 1000);
            try (Layer model = CountingModel.create(2); Optimizer optimizer = CountingModel.optimizer(model);
                    KafkaLearner learner = LearnerProcess.settings(cluster, "labelled", directory, 1, model, optimizer)
                            .open();
                    KafkaScorer scorer = scorer(cluster).batch(100, Duration.ofMillis(5)).open()) {
                scoreTo(scorer, 300);
                broker.restart();
                scoreTo(scorer, 1000);
                Tally tally = new Tally(1000);
                Records.read(cluster, "out", 1000).forEach(tally::take);
                tally.requireEachOnce();
                broker.stop();
                within(Duration.ofSeconds(20), () -> {
                    CompletableFuture<Void> scoring = CompletableFuture.runAsync(scorer::run);
                    CompletableFuture<Void> learning = CompletableFuture.runAsync(learner::run);
                    for (CompletableFuture<Void> run : List.of(scoring, learning)) {
                        assertThatThrownBy(run::join).hasCauseInstanceOf(StreamException.class)
                                .hasMessageContaining("have not answered");
                    }
                });
            }
        }
    }

    private static void scoreTo(KafkaScorer scorer, long count) {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (scorer.counts().scored() < count) {
            assertThat(System.nanoTime()).as("deadline; " + scorer.counts()).isLessThan(end);
            scorer.step();
        }
    }
}
