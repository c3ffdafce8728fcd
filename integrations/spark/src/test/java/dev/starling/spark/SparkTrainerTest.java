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
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.api.java.function.ForeachFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

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
        return Stream.of(Strategy.ring(), Strategy.gossip(2), Strategy.servers(1, 0));
    }

    static Stream<Strategy> moreStrategies() {
        return Stream.of(Strategy.asynchronousServers(1), Strategy.servers(1, 2));
    }

    static double accuracy(TrainedModel model, Dataset<Row> points) {
        return model.transform(points, Output.ofClass("guess")).selectExpr("avg(cast(guess = label as double))")
                .first().getDouble(0);
    }

    @ParameterizedTest
    @MethodSource("strategies")
    void learnsFromPartitionsOfUnequalSizeAndMeasuresHeldOutRows(Strategy strategy) {
        Dataset<Row> points = SharedSession.points(100, 800);
        Dataset<Row> heldOut = SharedSession.points(30, 333).selectExpr("array(y, x) as point", "label");
        List<String> heard = Collections.synchronizedList(new ArrayList<>());
        TrainedModel trained = trainer().strategy(strategy).heldOut(heldOut).listeners(new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                heard.add("step");
            }

            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                heard.add("epoch " + report.epoch() + ": " + report.heldOut().orElseThrow().examples());
            }

            @Override
            public void ended(Progress progress) {
                heard.add("end");
            }
        }).fit(points);
        EpochReport last = trained.epochs().getLast();
        assertThat(trained.isClassifier()).isTrue();
        int workers = 2 - strategy.serverTasks();
        assertThat(last.training().examples()).isEqualTo(strategy.isSynchronous() || workers == 1 ? 800 : 100);
        // Workers that do not wait for each other mix replicas whose age depends on the machine's load.
        assertThat(accuracy(trained, points)).isGreaterThan(strategy.isSynchronous() ? 0.9 : 0.8);
        assertThat(heard).contains("step", "epoch 1: 333", "epoch 4: 333").endsWith("end");
        if (strategy.serverTasks() == 0) {
            assertThat(last.heldOut().orElseThrow().metric("accuracy")).isCloseTo(accuracy(trained, heldOut),
                    within(1e-9));
        }
    }

    @Test
    void readsAColumnOfAnyNameWhereRowsMove() {
        Dataset<Row> points = SharedSession.get().range(0, 200, 1, 1).selectExpr(
                "array(float(id % 7), float(id % 5)) as point", "cast(id % 2 as int) as label");
        double loss = trainer().workers(2).epochs(1).fit(points).epochs().getLast().training().loss();
        assertThat(trainer().workers(2).epochs(1).classes("starling_worker").fit(points.withColumnRenamed("label",
                "starling_worker")).epochs().getLast().training().loss()).isEqualTo(loss);
    }

    @ParameterizedTest
    @Tag("stress")
    @MethodSource("moreStrategies")
    void learnsWithMoreStrategies(Strategy strategy) {
        learnsFromPartitionsOfUnequalSizeAndMeasuresHeldOutRows(strategy);
    }

    @Test
    @Tag("stress")
    void takesTheSameStepsAsOneProcessUnderRing() {
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

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void equalsThePlainRunOfTwoRanks(boolean elastic, @TempDir Path directory) throws Exception {
        // Rows have no defined order after a shuffle.
        SharedSession.points(100, 800).write().parquet(directory + "/points");
        Dataset<Row> points = SharedSession.get().read().parquet(directory + "/points");
        SparkTrainer trainer = trainer().epochs(2);
        try (Layer onSpark = (elastic ? trainer.elastic() : trainer).fit(points).build()) {
            Map<String, float[]> plain = PlainRun.of(points.select("point", "label"), 2, 16, 3);
            assertThat(onSpark.state()).hasSameSizeAs(plain);
            onSpark.state().forEach((name, p) -> assertThat(p.value().toFloats()).as(name)
                    .containsExactly(plain.get(name), within(1e-6f)));
        }
    }

    @Test
    void usesEachRowOnceAnEpoch() {
        // Numbers of rows whose sum and sum of squares no other selection of 800 rows has.
        Dataset<Row> rows = SharedSession.points(100, 800).selectExpr("x", "cast((id + 1) / 100 as float) as number");
        List<EpochReport> epochs = SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "1,1")),
                        Loss::meanSquared, (model, steps) -> Sgd.over(model).rate(1e-3).build()).inputs("x")
                .target("number").epochs(3).batchSize(16)
                .metrics(() -> Metric.of("sum", (result, target) -> target.sum().item()),
                        () -> Metric.of("squares", (result, target) -> target.square().sum().item()))
                .fit(rows).epochs();
        assertThat(epochs).hasSize(3).allSatisfy(epoch -> {
            assertThat(epoch.training().examples()).isEqualTo(800);
            assertThat(epoch.training().metric("sum") * 800).isCloseTo(800 * 801 / 2 / 100.0, within(0.05));
            assertThat(epoch.training().metric("squares") * 800).isCloseTo(800L * 801 * 1601 / 6 / 1e4, within(0.5));
        });
    }

    @Test
    void pretrainsADeepBeliefNetwork() {
        // Gossip mixes replicas alike: of partitions of unequal size, a busy machine decides which one prevails.
        Dataset<Row> points = SharedSession.points(400, 800);
        TrainedModel trained = SparkTrainer.of(ModelDescription.of(DeepBelief.class, Map.of("sizes", "2,16,8,2",
                        "dropout", "0")), Loss::crossEntropy, DeepBelief.adam(5e-3, 0.1)).inputs("point")
                .classes("label").pretraining(1).epochs(60).batchSize(16).seed(3)
                .strategy(Strategy.gossipAfterEachPass()).heldOut(points).fit(points);
        List<EpochReport> epochs = trained.epochs();
        assertThat(epochs).hasSize(62);
        assertThat(epochs.get(0).training().metrics()).containsOnlyKeys("machine 1 reconstruction error");
        assertThat(epochs.get(1).heldOut().orElseThrow().metrics()).containsOnlyKeys("machine 2 reconstruction error");
        assertThat(epochs.getLast().heldOut().orElseThrow().metric("accuracy")).isCloseTo(accuracy(trained, points),
                within(1e-9)).isGreaterThan(0.9);
    }

    @ParameterizedTest
    @ValueSource(strings = {"cancelled", "interrupted", "the listener fails"})
    void endsAllWorkersWhenTheJobIsEnded(String way) throws InterruptedException {
        SparkContext context = SharedSession.get().sparkContext();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch stepped = new CountDownLatch(1);
        Dataset<Row> points = SharedSession.points(100, 800);
        Thread fitting = Thread.ofPlatform().start(() -> {
            try {
                context.setJobGroup("long", "a run that is ended", false);
                trainer().epochs(1_000_000).listeners(new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        stepped.countDown();
                        if (way.equals("the listener fails")) {
                            throw new IllegalStateException(way);
                        }
                    }
                }).fit(points);
            } catch (RuntimeException e) {
                failures.add(e);
            }
        });
        assertThat(stepped.await(60, TimeUnit.SECONDS)).isTrue();
        if (way.equals("cancelled")) {
            context.cancelJobGroup("long");
        } else if (way.equals("interrupted")) {
            fitting.interrupt();
        }
        assertThat(fitting.join(Duration.ofSeconds(20))).isTrue();
        assertThat(failures).singleElement().isInstanceOf(way.equals("the listener fails")
                ? IllegalStateException.class : SparkJobException.class).asString().contains(way);
        SharedSession.awaitIdle(context, Duration.ofSeconds(3));
    }

    @Test
    void endsTheJobThatReadsRowsBeforeTrainingWhenInterrupted() throws InterruptedException {
        SparkContext context = SharedSession.get().sparkContext();
        Dataset<Row> rows = SharedSession.get().range(0, 2, 1, 2).map((MapFunction<Long, Long>) id -> {
            Thread.sleep(60_000);
            return id;
        }, Encoders.LONG()).selectExpr("array(float(value), float(1)) as point", "int(value) as label");
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        Thread fitting = Thread.ofPlatform().start(() -> {
            try {
                context.setJobGroup("slow", "rows that take long", true);
                trainer().fit(rows);
            } catch (Exception e) {
                failures.add(e);
            }
        });
        long begin = System.nanoTime();
        while (Stream.of(context.statusTracker().getExecutorInfos()).noneMatch(e -> e.numRunningTasks() > 0)) {
            assertThat(System.nanoTime() - begin).isLessThan(TimeUnit.SECONDS.toNanos(30));
            Thread.sleep(20);
        }
        fitting.interrupt();
        assertThat(fitting.join(Duration.ofSeconds(20))).isTrue();
        assertThat(failures).singleElement().isInstanceOf(SparkJobException.class).asString().contains("interrupted");
        SharedSession.awaitIdle(context, Duration.ofSeconds(5));
    }

    @Test
    void repeatsAStageOfWhichATaskReportsACancelledQuery() {
        SparkJobException lost = JobWatch.failure(new IllegalStateException("Job aborted due to stage failure: Could "
                + "not recover from a failed barrier ResultStage. Most recent failure reason: Stage failed because "
                + "barrier task ResultTask(0, 1) finished unsuccessfully.\njava.sql.SQLException: query cancelled"));
        assertThat(lost).hasMessageStartingWith("the job failed: ");
        assertThat(JobWatch.isLostTask(lost)).isTrue();
        for (String message : List.of("[SPARK_JOB_CANCELLED] Job 7 cancelled the barrier is closed",
                "Job 7 cancelled because SparkContext was shut down")) {
            SparkJobException ended = JobWatch.failure(new IllegalStateException(message));
            assertThat(ended).hasMessageStartingWith("the job was cancelled: ");
            assertThat(JobWatch.isLostTask(ended)).isFalse();
        }
    }

    @Test
    void doesNotCountTheTimeOfAShuffleAsAWaitForSlots() {
        SparkSession session = SharedSession.get();
        // Adaptive execution shuffles rows before the job.
        session.conf().set("spark.sql.adaptive.enabled", false);
        try {
            Dataset<Row> rows = session.range(0, 4, 1, 4).map((MapFunction<Long, Long>) id -> {
                Thread.sleep(800);
                return id;
            }, Encoders.LONG()).selectExpr("array(float(value), float(1)) as point", "int(value % 2) as label");
            assertThat(trainer().epochs(1).workers(2).slotTimeout(Duration.ofSeconds(1)).fit(rows).epochs().getLast()
                    .training().examples()).isEqualTo(4);
        } finally {
            session.conf().unset("spark.sql.adaptive.enabled");
        }
    }

    @Test
    void waitsForASlowTaskOfAnElasticRun() {
        SparkSession session = SharedSession.get();
        Dataset<Row> rows = session.range(0, 64, 1, 2).selectExpr("array(float(id % 2), float(1)) as point",
                "int(id % 2) as label");
        // One task reads its rows for longer than workers wait for each other.
        Dataset<Row> heldOut = session.range(0, 2, 1, 2).map((MapFunction<Long, Long>) id -> {
            Thread.sleep(4000 * id);
            return id;
        }, Encoders.LONG()).selectExpr("array(float(value), float(1)) as point", "int(value) as label");
        List<String> failures = Collections.synchronizedList(new ArrayList<>());
        SparkListener listener = new SparkListener() {
            @Override
            public void onTaskEnd(SparkListenerTaskEnd end) {
                if (end.reason() != Success$.MODULE$) {
                    failures.add(end.reason().toString());
                }
            }
        };
        session.sparkContext().addSparkListener(listener);
        try {
            EpochReport report = trainer().epochs(1).elastic().timeout(Duration.ofSeconds(3)).heldOut(heldOut)
                    .fit(rows).epochs().getLast();
            assertThat(report.training().examples()).isEqualTo(64);
            assertThat(report.heldOut().orElseThrow().examples()).isEqualTo(2);
        } finally {
            session.sparkContext().removeSparkListener(listener);
        }
        assertThat(failures).isEmpty();
    }

    @Test
    void refusesAClusterWithoutExecutors() {
        assertThatThrownBy(() -> EmbeddedCluster.session(0, 1, 1024)).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("got 0 executors");
    }

    @Test
    void trainsOnAUnionWhoseLineageNoBarrierStageMayHave() {
        Dataset<Row> points = SharedSession.points(100, 400);
        assertThat(trainer().epochs(1).fit(points.coalesce(1).union(points.coalesce(1))).epochs().getLast().training()
                .examples()).isEqualTo(800);
    }

    @Test
    void reportsThatOtherJobsHoldTheSlots() throws Exception {
        SparkContext context = SharedSession.get().sparkContext();
        Thread other = Thread.ofPlatform().start(() -> {
            context.setJobGroup("other", "a job that holds a slot", true);
            try {
                SharedSession.get().range(0, 1, 1, 1).foreach((ForeachFunction<Long>) _ -> Thread.sleep(60_000));
            } catch (RuntimeException e) {
                // The job is cancelled.
            } catch (Exception e) {
                // Spark throws checked exceptions without declaring them.
            }
        });
        try {
            Dataset<Row> points = SharedSession.points(100, 800);
            points.count();
            assertThatThrownBy(() -> trainer().workers(2).slotTimeout(Duration.ofSeconds(1)).fit(points))
                    .isInstanceOf(SparkJobException.class).hasMessageContaining("of 2 tasks started within 1 s")
                    .hasMessageContaining("other jobs hold the slots");
        } finally {
            context.cancelJobGroup("other");
            assertThat(other.join(Duration.ofSeconds(20))).isTrue();
        }
    }

    @Test
    void waitsForSlotsWithoutALimitUntilItIsInterrupted() {
        Dataset<Row> points = SharedSession.points(100, 800);
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> trainer().workers(5).slotTimeout(ChronoUnit.FOREVER.getDuration()).fit(points))
                .isInstanceOf(SparkJobException.class).hasMessageContaining("interrupted while waiting for 5 slots");
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void hasAWorkerEvenIfTheSlotsOfAllAreLost() {
        assertThat(SparkTrainer.workers(8, 0, 4)).isEqualTo(4);
        assertThat(SparkTrainer.workers(8, 2, 12)).isEqualTo(6);
        assertThat(SparkTrainer.workers(0, 0, 4)).isEqualTo(1);
        assertThat(SparkTrainer.workers(1, 2, 4)).isEqualTo(1);
    }

    @Test
    void refusesDynamicAllocationBeforeItWaitsForSlots() {
        SparkConf conf = SharedSession.get().sparkContext().conf();
        conf.set("spark.dynamicAllocation.enabled", "true");
        try {
            assertThatThrownBy(() -> trainer().workers(5).slotTimeout(Duration.ofSeconds(1))
                    .fit(SharedSession.points(100, 800))).isInstanceOf(SparkJobException.class)
                    .hasMessageContaining("Spark refuses with spark.dynamicAllocation.enabled=true; set it to false");
        } finally {
            conf.remove("spark.dynamicAllocation.enabled");
        }
    }

    @Test
    void reportsThatTheClusterIsTooSmall() {
        assertThatThrownBy(() -> trainer().workers(5).slotTimeout(Duration.ofSeconds(1))
                .fit(SharedSession.points(100, 800))).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("needs 5 concurrent tasks").hasMessageContaining("the cluster offers 2");
    }
}
