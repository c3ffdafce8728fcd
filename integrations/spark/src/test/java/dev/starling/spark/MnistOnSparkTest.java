package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.IdxFile;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** MNIST as Parquet in HDFS; {@code -Dstarling.data=DIR} names the folder that {@code unpack} has filled. */
@Tag("stress")
@Timeout(1800)
@EnabledIfSystemProperty(named = "starling.data", matches = ".+")
@ExtendWith(SharedSession.class)
class MnistOnSparkTest {
    @TempDir
    private static Path directory;
    private static MiniDFSCluster hdfs;

    @BeforeAll
    static void start() throws IOException {
        hdfs = new MiniDFSCluster.Builder(new Configuration(), directory.toFile()).numDataNodes(1).build();
    }

    @AfterAll
    static void stop() {
        hdfs.shutdown();
    }

    /** Writes images in two files; the first has one of {@code of} images. */
    private static Dataset<Row> parquet(String set, int of) throws IOException {
        Path data = Path.of(System.getProperty("starling.data"), "mnist");
        IdxFile images = IdxFile.read(data.resolve(set + "-images-idx3-ubyte.gz"));
        IdxFile labels = IdxFile.read(data.resolve(set + "-labels-idx1-ubyte.gz"));
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < images.dims()[0]; i++) {
            rows.add(RowFactory.create(Arrays.copyOfRange(images.data(), i * 784, (i + 1) * 784),
                    (int) labels.data()[i], i % of == 0 ? 0 : 1));
        }
        SparkSession session = SharedSession.get();
        String path = hdfs.getURI() + "/mnist/" + set + of;
        session.createDataFrame(rows, new StructType().add("pixels", DataTypes.BinaryType)
                .add("label", DataTypes.IntegerType).add("part", DataTypes.IntegerType))
                .repartitionById(2, functions.col("part")).drop("part").write().mode("overwrite").parquet(path);
        return session.read().parquet(path);
    }

    private static double report(String name, TrainedModel trained, long begin) throws IOException {
        double seconds = (System.nanoTime() - begin) / 1e9;
        double accuracy = trained.transform(parquet("t10k", 2), Output.ofClass("digit"))
                .selectExpr("avg(cast(digit = label as double))").first().getDouble(0);
        System.err.printf("%s: accuracy %.4f, %.1f s with reading%n", name, accuracy, seconds);
        return accuracy;
    }

    @ParameterizedTest
    @CsvSource({"ring, 8", "gossip, 2"})
    void reachesTheAccuracyOfOneMachine(String strategy, int of) throws IOException {
        Dataset<Row> images = parquet("train", of);
        long begin = System.nanoTime();
        TrainedModel trained = SparkTrainer.of(ModelDescription.of(DigitNetwork.class, Map.of()), Loss::crossEntropy,
                Choices.optimizer("adamw", 4e-3)).inputs("pixels").shape(1, 28, 28).classes("label").epochs(3)
                .batchSize(128).seed(1).strategy(Choices.strategy(strategy)).metrics(Metric::accuracy)
                .listeners(ProgressBar.on(System.err, false).unit("images")).fit(images);
        assertThat(report(strategy, trained, begin)).isGreaterThanOrEqualTo(0.985);
        if (of == 8) {
            // Partitions of 1 : 7, and no row is lost.
            assertThat(trained.epochs()).allMatch(epoch -> epoch.training().examples() == 60_000);
        }
    }

    @Test
    void trainsADeepBeliefNetworkWithoutAParameterServer() throws IOException {
        Dataset<Row> images = parquet("train", 2);
        long begin = System.nanoTime();
        TrainedModel trained = SparkTrainer.of(ModelDescription.of(DeepBelief.class, Map.of("sizes",
                        "784,500,500,2000,10", "scale", "255")), Loss::crossEntropy, DeepBelief.adam(5e-3, 2e-3))
                .inputs("pixels").classes("label").pretraining(5).epochs(15).batchSize(100).seed(1)
                .strategy(Strategy.gossipAfterEachPass()).checkpoints(hdfs.getURI() + "/checkpoints")
                .heldOut(parquet("t10k", 2)).listeners(ProgressBar.on(System.err, false).unit("images")).fit(images);
        assertThat(report("deep belief network", trained, begin)).isGreaterThanOrEqualTo(0.98);
    }
}
