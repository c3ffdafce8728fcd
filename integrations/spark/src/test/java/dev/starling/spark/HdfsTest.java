package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.train.EpochReport;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Rows, checkpoints and models in a real HDFS: a name node and a data node in this process. */
@Timeout(120)
@ExtendWith(SharedSession.class)
class HdfsTest {
    @TempDir
    private static Path directory;
    private static MiniDFSCluster cluster;
    private static String root;

    @BeforeAll
    static void start() throws IOException {
        Configuration conf = new Configuration();
        conf.set("dfs.replication", "1");
        cluster = new MiniDFSCluster.Builder(conf, directory.toFile()).numDataNodes(1).build();
        root = cluster.getURI().toString();
    }

    @AfterAll
    static void stop() {
        cluster.shutdown();
    }

    @Test
    void trainsAndResumesFromHdfs() throws IOException {
        SharedSession.points(100, 800).write().parquet(root + "/points");
        Dataset<Row> points = SharedSession.get().read().parquet(root + "/points");
        assertThat(points.inputFiles()).allMatch(name -> name.startsWith("hdfs://"));
        SparkTrainer trainer = SparkTrainerTest.trainer().checkpoints(root + "/checkpoints");
        trainer.epochs(2).fit(points);
        FileSystem hdfs = cluster.getFileSystem();
        assertThat(Arrays.stream(hdfs.listStatus(new org.apache.hadoop.fs.Path("/checkpoints"))).map(f ->
                f.getPath().getName())).anyMatch(name -> name.endsWith(".json"));
        TrainedModel trained = trainer.epochs(4).fit(points);
        // Epochs 1 and 2 are in the checkpoint.
        assertThat(trained.epochs()).extracting(EpochReport::epoch).containsExactly(3, 4);
        assertThat(trained.epochs()).allMatch(epoch -> epoch.training().examples() == 800);
        Configuration conf = SharedSession.get().sparkContext().hadoopConfiguration();
        trained.save(root + "/model.safetensors", conf);
        TrainedModel loaded = TrainedModel.load(root + "/model.safetensors", conf);
        assertThat(loaded.safetensors()).isEqualTo(trained.safetensors());
        assertThat(SparkTrainerTest.accuracy(loaded, points)).isGreaterThan(0.9);
    }

    @Test
    @Tag("stress")
    void resumesFromHdfsAndReportsThePauseWhenAnExecutorIsKilled() {
        SharedSession.points(100, 800).write().parquet(root + "/rows");
        Dataset<Row> points = SharedSession.get().read().parquet(root + "/rows");
        int epochs = 400;
        KilledExecutor killed = new KilledExecutor(1000);
        List<Pause> pauses = Collections.synchronizedList(new ArrayList<>());
        TrainedModel trained = SparkTrainerTest.trainer().epochs(epochs).checkpoints(root + "/interrupted", 500)
                .listeners(killed).pauses(pauses::add).fit(points);
        EpochReport last = trained.epochs().getLast();
        assertThat(killed.step()).isGreaterThanOrEqualTo(1000);
        assertThat(last.epoch()).isEqualTo(epochs);
        assertThat(last.step()).isEqualTo(epochs * 50L);
        assertThat(last.training().examples()).isEqualTo(800);
        assertThat(pauses).singleElement().satisfies(pause -> {
            assertThat(pause.lastStep()).isGreaterThanOrEqualTo(killed.step());
            // Training resumes after a checkpoint, not from the beginning.
            assertThat(pause.nextStep() % 500).isEqualTo(1);
            assertThat(pause.nextStep()).isBetween(501L, pause.lastStep() + 5000);
            assertThat(pause.workers()).isEqualTo(2);
            assertThat(pause.length()).isBetween(Duration.ofMillis(200), Duration.ofMinutes(1));
            assertThat(pause.toString()).contains("training paused for", "resumes at step " + pause.nextStep());
        });
    }
}
