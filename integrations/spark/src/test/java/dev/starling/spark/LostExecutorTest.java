package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Kills an executor during an epoch of an elastic run; {@link HdfsTest} does so in a barrier stage. */
@Tag("stress")
@Timeout(600)
@ExtendWith(SharedSession.class)
class LostExecutorTest {
    @ParameterizedTest
    @ValueSource(strings = {"ring", "gossip:2"})
    void continuesWithoutTheExecutorAndReadmitsIt(String strategy, @TempDir Path directory) {
        SharedSession.points(400, 800).write().parquet(directory + "/points");
        Dataset<Row> points = SharedSession.get().read().parquet(directory + "/points");
        int epochs = 500;
        KilledExecutor killed = new KilledExecutor(1000);
        List<Pause> pauses = Collections.synchronizedList(new ArrayList<>());
        List<Integer> jobs = Collections.synchronizedList(new ArrayList<>());
        SparkListener counting = new SparkListener() {
            @Override
            public void onJobStart(SparkListenerJobStart start) {
                jobs.add(start.jobId());
            }
        };
        SharedSession.get().sparkContext().addSparkListener(counting);
        TrainedModel trained = SparkTrainerTest.trainer().epochs(epochs).elastic().attempts(1)
                .strategy(Choices.strategy(strategy)).listeners(killed).pauses(pauses::add)
                // Slows the steps down, so that another executor has time to start.
                .metrics(() -> Metric.of("pace", (result, target) -> {
                    LockSupport.parkNanos(1_000_000);
                    return 0;
                })).fit(points);
        SharedSession.get().sparkContext().removeSparkListener(counting);
        System.err.println(strategy + ": " + pauses);
        assertThat(killed.step()).isGreaterThanOrEqualTo(1000);
        assertThat(SparkTrainerTest.accuracy(trained, points)).isGreaterThan(0.9);
        EpochReport last = trained.epochs().getLast();
        assertThat(last.epoch()).isEqualTo(epochs);
        // The first row, the numbers of rows, and the training: none of these jobs twice.
        assertThat(jobs).hasSize(3);
        assertThat(pauses).extracting(Pause::workers).containsExactly(1, 2);
        if (strategy.equals("ring")) {
            // The rows of the lost worker are missing until it has joined again.
            assertThat(trained.epochs()).extracting(e -> e.training().examples()).contains(800L, 400L);
            assertThat(last.training().examples()).isEqualTo(800);
            assertThat(pauses).allSatisfy(p -> assertThat(p.length()).isLessThan(Duration.ofSeconds(3)));
        }
    }
}
