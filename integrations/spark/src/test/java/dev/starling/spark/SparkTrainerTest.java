package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Training in real executor processes. */
@Timeout(240)
@ExtendWith(SharedSession.class)
class SparkTrainerTest {
    static SparkTrainer trainer() {
        return SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "2,16,2")), Loss::crossEntropy,
                (model, steps) -> Adam.over(model).rate(0.02).build()).inputs("point").classes("label").epochs(4)
                .batchSize(16).seed(3).metrics(Metric::accuracy);
    }

    static Stream<Strategy> strategies() {
        return Stream.of(Strategy.ring(), Strategy.gossip(2), Strategy.servers(1, 0), Strategy.asynchronousServers(1),
                Strategy.servers(1, 2));
    }

    private static double accuracy(TrainedModel model, Dataset<Row> points) {
        return model.transform(points, Output.ofClass("guess")).selectExpr("avg(cast(guess = label as double))")
                .first().getDouble(0);
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void shouldLearnFromPartitionsOfUnequalSize(Strategy strategy) {
        Dataset<Row> points = SharedSession.points(100, 800);
        TrainedModel trained = trainer().strategy(strategy).fit(points);
        EpochReport last = trained.epochs().getLast();
        int workers = 2 - strategy.serverTasks();
        assertThat(last.training().examples()).isEqualTo(strategy.isSynchronous() || workers == 1 ? 800 : 100);
        assertThat(accuracy(trained, points)).isGreaterThan(0.9);
    }

    @Test
    void shouldTakeTheStepsOfOneProcessUnderRing() {
        // In order, each step takes the next 2 rows of rank 0 and the next 14 of rank 1.
        Dataset<Row> points = SharedSession.points(100, 800).sortWithinPartitions("id");
        SparkTrainer trainer = SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "2,8,2")),
                Loss::crossEntropy, (model, steps) -> Sgd.over(model).rate(0.5).build()).inputs("x", "y")
                .classes("label").inOrder().seed(5).batchSize(16);
        try (Layer two = trainer.fit(points).build();
                Layer one = trainer.workers(1).fit(points.orderBy(org.apache.spark.sql.functions.expr(
                        "case when id < 100 then floor(id / 2) else floor((id - 100) / 14) end")).coalesce(1))
                        .build()) {
            two.state().forEach((name, p) -> assertThat(p.value().toFloats()).as(name)
                    .containsExactly(one.state().get(name).value().toFloats(), within(2e-5f)));
        }
    }

    @Test
    void shouldTellListenersOnTheDriver() {
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        trainer().epochs(2).listeners(new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                heard.add("step");
            }

            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                heard.add("epoch " + report.epoch());
            }

            @Override
            public void ended(Progress progress) {
                heard.add("end");
            }
        }).fit(SharedSession.points(400, 800));
        assertThat(heard).contains("step", "epoch 0", "epoch 1").endsWith("end");
    }

    @Test
    @Tag("stress")
    void shouldEndAllWorkersWhenTheJobIsCancelled() throws InterruptedException {
        SparkContext context = SharedSession.get().sparkContext();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        List<Progress> steps = Collections.synchronizedList(new ArrayList<>());
        Dataset<Row> points = SharedSession.points(100, 800);
        Thread fitting = Thread.ofPlatform().start(() -> {
            try {
                context.setJobGroup("long", "a run that is cancelled", false);
                trainer().epochs(1_000_000).listeners(new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        steps.add(progress);
                    }
                }).fit(points);
            } catch (SparkJobException e) {
                failures.add(e);
            }
        });
        while (steps.isEmpty() && fitting.isAlive()) {
            Thread.sleep(50);
        }
        context.cancelJobGroup("long");
        assertThat(fitting.join(Duration.ofSeconds(20))).isTrue();
        assertThat(failures).singleElement().asString().contains("cancelled");
        // The slots are free again at once.
        trainer().epochs(1).slotsWithin(Duration.ofSeconds(30)).fit(points);
    }

    @Test
    void shouldTrainOnAUnionWhoseLineageNoBarrierStageMayHave() {
        Dataset<Row> points = SharedSession.points(100, 400);
        assertThat(trainer().epochs(1).fit(points.coalesce(1).union(points.coalesce(1))).epochs().getLast().training()
                .examples()).isEqualTo(800);
    }

    @Test
    void shouldSayThatTheClusterIsTooSmall() {
        assertThatThrownBy(() -> trainer().workers(5).slotsWithin(Duration.ofSeconds(1))
                .fit(SharedSession.points(100, 800))).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("needs 5 tasks at once").hasMessageContaining("the cluster offers 2");
    }

    @Test
    void shouldKeepTheSecretOutOfTexts() {
        TrainingJob job = new TrainingJob(null, "factory", Map.of(), null, null, List.of(), List.of(), 1, 1, 1, true,
                Strategy.ring(), 2, "5ec2e7", "aeron", null, null, null, 0, 1, null, null);
        assertThat(job.toString()).doesNotContain("5ec2e7");
    }
}
