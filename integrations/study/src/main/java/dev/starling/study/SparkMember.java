package dev.starling.study;

import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.LabelledImages;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import dev.starling.spark.EmbeddedCluster;
import dev.starling.spark.SparkTrainer;
import dev.starling.spark.Strategy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Spark's driver, started by {@link Study}; its one argument is the file of its {@link Plan}. */
public final class SparkMember {
    private static final int EXECUTOR_MEBIBYTES = 2048;
    /** Limits the size of tasks: Spark sends rows that are created on the driver inside them. */
    private static final int ROWS_PER_JOB = 10_000;
    private static final String PIXELS = "pixels";
    private static final String LABEL = "label";

    private SparkMember() {
    }

    /** Trains on the images in Parquet, which it writes first if they are missing. */
    public static void main(String[] arguments) throws IOException {
        Plan plan = Json.read(Path.of(arguments[0]), Plan.class);
        int executors = plan.setup().workers();
        int cores = Math.max(1, Runtime.getRuntime().availableProcessors() / executors);
        try (SparkSession session = EmbeddedCluster.session(executors, cores, EXECUTOR_MEBIBYTES).appName("study")
                .config("spark.task.cpus", cores).config("spark.sql.shuffle.partitions", executors).getOrCreate()) {
            Path parquet = Path.of(plan.parquet());
            if (!Files.exists(parquet.resolve("_SUCCESS"))) {
                write(session, Images.read(Path.of(plan.trainFile()), plan.recipe().images()), parquet);
            }
            Dataset<Row> rows = session.read().parquet(address(parquet)).repartition(executors);
            Recipe recipe = plan.recipe();
            SparkTrainer.of(plan.model(), Loss::crossEntropy, plan::optimizer).inputs(PIXELS)
                    .shape(CifarFile.CHANNELS, CifarFile.SIDE, CifarFile.SIDE).classes(LABEL).workers(executors)
                    .epochs(recipe.epochs()).batchSize(recipe.updateBatch(plan.setup())).seed(plan.seed())
                    .strategy(Strategy.ring()).transport(Member.TRANSPORT).livenessTimeout(Member.SILENCE).attempts(1)
                    .metrics(Metric::accuracy).onWorkers((model, rank) -> new Snapshots(plan, model, rank))
                    .listeners(ProgressBar.onStandardError().unit("images")).fit(rows);
        }
    }

    /** Returns the address of a folder for Spark, which takes it as it is: the escapes of a URI would be part of it. */
    static String address(Path folder) {
        return "file://" + folder.toAbsolutePath();
    }

    private static void write(SparkSession session, LabelledImages images, Path parquet) {
        StructType type = new StructType().add(PIXELS, DataTypes.BinaryType).add(LABEL, DataTypes.IntegerType);
        for (int from = 0; from < images.count(); from += ROWS_PER_JOB) {
            List<Row> rows = new ArrayList<>();
            for (int i = from; i < Math.min(from + ROWS_PER_JOB, images.count()); i++) {
                rows.add(RowFactory.create(Arrays.copyOfRange(images.pixels(), images.offset(i), images.offset(i)
                        + images.imageSize()), images.label(i)));
            }
            session.createDataFrame(rows, type).write().mode("append").parquet(address(parquet));
        }
    }
}
