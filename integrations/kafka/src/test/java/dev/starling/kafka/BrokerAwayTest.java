package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingState;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Brokers that do not exist, and one that is stopped: no record is lost, nothing hangs, and errors are clear. */
@ExtendWith(Broker.class)
@Timeout(120)
class BrokerAwayTest {
    private static final KafkaCluster AWAY = KafkaCluster.at("127.0.0.1:1").deadline(Duration.ofSeconds(1))
            .with("sasl.jaas.config", "secret");
    private static final int BEFORE = 1000;
    private static final int RECORDS = 1500;

    @TempDir
    Path directory;
    private String in;
    private String dead;
    private String models;
    private String weights;

    private static void within(Duration limit, Runnable body) {
        long start = System.nanoTime();
        body.run();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(limit);
    }

    private static CompletableFuture<Void> start(Runnable body) {
        return CompletableFuture.runAsync(body, task -> Thread.ofPlatform().daemon().start(task));
    }

    @Test
    void reportsThatNoBrokerAnswers() {
        within(Duration.ofSeconds(15), () -> {
            try (Layer model = CountingModel.create(2);
                    Optimizer optimizer = CountingModel.optimizer(model);
                    ModelPublisher publisher = ModelPublisher.of(AWAY, "models", directory);
                    KafkaGossip gossip = KafkaGossip.of(AWAY, "weights", "berlin").build()) {
                List<CompletableFuture<Void>> all = Stream.<Runnable>of(() -> scorer(AWAY).open(),
                        () -> StreamScoring.open(AWAY, RowCodec.floats(4), ModelTopic.of("models", "sum")),
                        () -> LearnerProcess.settings(AWAY, "t", directory, 1, model, optimizer).open(),
                        () -> publisher.publish("sum", 1, model, Map.of()),
                        () -> gossip.start(TrainingState.of(model, optimizer)))
                        .map(BrokerAwayTest::start).toList();
                for (CompletableFuture<Void> each : all) {
                    assertThatThrownBy(() -> each.get(20, TimeUnit.SECONDS)).hasCauseInstanceOf(StreamException.class)
                            .hasMessageContaining("the brokers at 127.0.0.1:1 have not answered within 1.0 s")
                            .hasMessageContaining("topic").hasMessageNotContaining("secret");
                }
            }
        });
        assertThat(AWAY.toString()).doesNotContain("secret");
        assertThatThrownBy(() -> scorer(KafkaCluster.at("no such:address")).open())
                .isInstanceOf(StreamException.class).hasMessageContaining("cannot be created");
    }

    private static KafkaScorer.Builder scorer(KafkaCluster cluster) {
        return KafkaScorer.of(cluster, RowCodec.floats(SumModel.COLUMNS)).from("in").to("out").deadLetters("dead")
                .model(ModelTopic.of("models", "sum"));
    }

    /** Opens a scorer of a group that has the name of its output topic. */
    private KafkaScorer scorer(KafkaCluster cluster, String out, int batch) {
        return scorer(cluster).from(in).to(out).group(out).deadLetters(dead).model(ModelTopic.of(models, "sum"))
                .batch(batch, Duration.ofMillis(5)).open();
    }

    private KafkaLearner learner(KafkaCluster cluster, String checkpoints, Layer model, Optimizer optimizer) {
        return KafkaLearner.of(cluster, in, RowCodec.floats(SumModel.COLUMNS))
                .model(model, CountingModel.LOSS, optimizer).batch(32).holdOut(0, 1, 1)
                .checkpoints(directory.resolve(checkpoints)).checkpointEvery(100, Duration.ofSeconds(1)).open();
    }

    private GossipSite site(KafkaCluster cluster, String name, int period, int column) {
        return new GossipSite(KafkaGossip.of(cluster, weights, name).period(period).build(), column);
    }

    private static void until(BooleanSupplier done, Runnable step) {
        long end = System.nanoTime() + Duration.ofSeconds(40).toNanos();
        while (!done.getAsBoolean()) {
            assertThat(System.nanoTime()).as("deadline").isLessThan(end);
            step.run();
        }
    }

    @Test
    void continuesWhenTheBrokerComesBackAndEndsWhenItDoesNot(EmbeddedBroker broker) {
        in = Broker.topic(broker, "in", 1);
        dead = Broker.topic(broker, "dead", 1);
        models = Broker.topic(broker, "models", 1);
        weights = Broker.topic(broker, "weights", 1);
        KafkaCluster cluster = Broker.cluster(broker);
        try (ModelPublisher publisher = ModelPublisher.of(cluster, models, directory);
                Layer sum = SumModel.ofVersion(1)) {
            publisher.publish("sum", 1, sum, SumModel.metadata());
        }
        Records.write(cluster, in, 0, BEFORE);
        boolean done = false;
        try {
            interrupt(broker, cluster);
            stopAndStartAgain(broker, cluster);
            done = true;
        } finally {
            if (!done) {
                // The tests after this one need the broker.
                broker.restart();
            }
        }
    }

    /** Stops the broker while records and weights are in flight, and restarts it. */
    private void interrupt(EmbeddedBroker broker, KafkaCluster cluster) {
        String out = Broker.topic(broker, "out", 1);
        try (Layer model = CountingModel.create(3); Optimizer optimizer = CountingModel.optimizer(model);
                GossipSite berlin = site(cluster, "berlin", 5, 0);
                GossipSite paris = site(cluster, "paris", 5, 1);
                GossipSite rome = site(cluster, "rome", 1, 1);
                KafkaLearner learner = learner(cluster, "learner", model, optimizer);
                KafkaScorer scorer = scorer(cluster, out, 100)) {
            Runnable both = () -> {
                berlin.step();
                paris.step();
            };
            until(() -> berlin.gossip.mixed() > 0 && paris.gossip.mixed() > 0, both);
            until(() -> scorer.counts().scored() >= 300, scorer::step);
            until(() -> learner.report().records() >= 300, learner::step);
            long mixed = berlin.gossip.mixed();
            broker.stop();
            CompletableFuture<Void> scoring = start(() ->
                    until(() -> scorer.counts().scored() >= RECORDS, scorer::step));
            CompletableFuture<Void> learning = start(() ->
                    until(() -> learner.report().records() >= RECORDS, learner::step));
            // No site waits while the broker is stopped, not even one whose producer has not found the topic yet.
            within(Duration.ofSeconds(5), () -> {
                rome.step();
                for (int i = 0; i < 200; i++) {
                    both.run();
                }
            });
            assertThat(scorer.counts().scored()).isLessThan(BEFORE);
            broker.restart();
            Records.write(cluster, in, BEFORE, RECORDS);
            until(() -> berlin.gossip.mixed() > mixed + 10 && paris.gossip.mixed() > 10, both);
            CompletableFuture.allOf(scoring, learning).orTimeout(40, TimeUnit.SECONDS).join();
            requireEachOnce(cluster, out);
            requireEachOnce(model, learner.report());
        }
    }

    /** Stops the broker for longer than the deadline; the next processes continue where the previous ones ended. */
    private void stopAndStartAgain(EmbeddedBroker broker, KafkaCluster cluster) {
        KafkaCluster hasty = cluster.deadline(Duration.ofSeconds(1));
        String busyOut = Broker.topic(broker, "busy", 1);
        String idleOut = Broker.topic(broker, "idle", 1);
        try (Layer model = CountingModel.create(3); Optimizer optimizer = CountingModel.optimizer(model);
                KafkaLearner learner = learner(hasty, "hasty", model, optimizer);
                KafkaScorer idle = scorer(hasty, idleOut, 100);
                KafkaScorer busy = scorer(hasty, busyOut, 100);
                GossipSite berlin = site(hasty, "berlin", 1, 0)) {
            until(() -> busy.counts().scored() >= 300, busy::step);
            broker.stop();
            end(broker.servers(), berlin, List.of(idle::run, busy::run, learner::run));
            broker.restart();
        }
        // The next scorer aborts the open transaction.
        try (KafkaScorer next = scorer(cluster, busyOut, 1000)) {
            until(() -> next.counts().scored() > 0, next::step);
            until(() -> next.step() == 0, () -> { });
        }
        requireEachOnce(cluster, busyOut);
    }

    private static void requireEachOnce(KafkaCluster cluster, String results) {
        Tally tally = new Tally(RECORDS);
        Records.read(cluster, results, RECORDS).forEach(tally::add);
        tally.requireEachOnce();
    }

    private static void requireEachOnce(Layer model, LearnerReport learned) {
        float[] sums = new float[3];
        for (int id = 0; id < RECORDS; id++) {
            for (int i = 0; i < sums.length; i++) {
                sums[i] += SumModel.row(id)[i];
            }
        }
        assertThat(learned.trained()).isEqualTo(RECORDS);
        assertThat(model.state().get("weight").value().toFloats()).containsExactly(sums);
    }

    private void end(String servers, GossipSite site, List<Runnable> bodies) {
        within(Duration.ofSeconds(12), () -> {
            List<CompletableFuture<Void>> runs = bodies.stream().map(BrokerAwayTest::start).toList();
            // The site continues to train, and logs why it does so by itself.
            List<String> warnings = new CopyOnWriteArrayList<>();
            Handler handler = new Warnings(warnings);
            Logger.getLogger("dev.starling.kafka").addHandler(handler);
            try {
                String alone = "the site berlin on topic " + weights + " at the brokers at " + servers;
                until(() -> warnings.stream().anyMatch(w -> w.contains(alone)), site::step);
            } finally {
                Logger.getLogger("dev.starling.kafka").removeHandler(handler);
            }
            for (CompletableFuture<Void> run : runs) {
                assertThatThrownBy(() -> run.get(20, TimeUnit.SECONDS)).hasCauseInstanceOf(StreamException.class)
                        .hasMessageContaining("topic " + in)
                        .hasMessageContaining("the brokers at " + servers + " have not answered within 1.0 s");
            }
        });
    }

    /** Collects log messages. */
    private static final class Warnings extends Handler {
        private final List<String> messages;

        Warnings(List<String> messages) {
            this.messages = messages;
        }

        @Override
        public void publish(LogRecord entry) {
            messages.add(new SimpleFormatter().formatMessage(entry));
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }
    }
}
