package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** A process that is killed in the midst of an epoch. */
@Tag("stress")
@Timeout(600)
@ExtendWith(SharedSession.class)
class LostExecutorTest {
    private static ProcessHandle executor() {
        return ProcessHandle.current().descendants().filter(p -> p.info().commandLine().orElse("")
                .contains("CoarseGrainedExecutorBackend")).findFirst().orElseThrow();
    }

    @Test
    void shouldGoOnFromTheCheckpointWhenAnExecutorIsKilled(@TempDir Path directory) {
        Dataset<Row> points = SharedSession.points(100, 800);
        int epochs = 4000;
        AtomicBoolean killed = new AtomicBoolean();
        long[] times = new long[2];
        TrainedModel trained = SparkTrainerTest.trainer().epochs(epochs).checkpoints(directory.toUri().toString(), 500)
                .listeners(new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        if (progress.step() > 1000 && killed.compareAndSet(false, true)) {
                            times[0] = progress.step();
                            System.err.println("kills an executor after step " + progress.step());
                            executor().destroyForcibly();
                        } else if (killed.get() && times[1] == 0 && progress.step() > times[0]) {
                            times[1] = progress.step();
                            System.err.println("goes on at step " + progress.step());
                        }
                    }
                }).fit(points);
        EpochReport last = trained.epochs().getLast();
        assertThat(killed).isTrue();
        assertThat(last.epoch()).isEqualTo(epochs - 1);
        assertThat(last.step()).isEqualTo(epochs * 50L);
        assertThat(last.training().examples()).isEqualTo(800);
    }
}
