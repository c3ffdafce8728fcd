package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.IdxFile;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** MNIST from Parquet; {@code -Dstarling.data=DIR} names the folder that {@code unpack} has filled. */
@Tag("stress")
@Timeout(1800)
@EnabledIfSystemProperty(named = "starling.data", matches = ".+")
@ExtendWith(SharedSession.class)
class MnistOnSparkTest {
    private static Dataset<Row> parquet(String set, Path directory) {
        Path data = Path.of(System.getProperty("starling.data"), "mnist");
        IdxFile images = IdxFile.read(data.resolve(set + "-images-idx3-ubyte.gz"));
        IdxFile labels = IdxFile.read(data.resolve(set + "-labels-idx1-ubyte.gz"));
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < images.dims()[0]; i++) {
            rows.add(RowFactory.create(Arrays.copyOfRange(images.data(), i * 784, (i + 1) * 784),
                    (int) labels.data()[i]));
        }
        SparkSession session = SharedSession.get();
        String path = directory.resolve(set).toString();
        session.createDataFrame(rows, new StructType().add("pixels", DataTypes.BinaryType)
                .add("label", DataTypes.IntegerType)).repartition(2).write().parquet(path);
        return session.read().parquet(path);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ring", "gossip"})
    void shouldReachTheAccuracyOfOneMachine(String strategy, @TempDir Path directory) {
        long begin = System.nanoTime();
        TrainedModel trained = SparkTrainer.of(ModelDescription.of(DigitNetwork.class, Map.of()), Loss::crossEntropy,
                Choices.optimizer("adamw", 4e-3)).inputs("pixels").shape(1, 28, 28).classes("label").epochs(3)
                .batchSize(128).seed(1).strategy(Choices.strategy(strategy)).metrics(Metric::accuracy)
                .listeners(ProgressBar.on(System.err, false).unit("images")).fit(parquet("train", directory));
        double seconds = (System.nanoTime() - begin) / 1e9;
        double accuracy = trained.transform(parquet("t10k", directory), Output.ofClass("digit"))
                .selectExpr("avg(cast(digit = label as double))").first().getDouble(0);
        System.err.printf("%s: accuracy %.4f, %.1f s with reading%n", strategy, accuracy, seconds);
        assertThat(accuracy).isGreaterThanOrEqualTo(0.985);
    }
}
