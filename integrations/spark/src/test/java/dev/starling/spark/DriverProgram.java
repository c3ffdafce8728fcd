package dev.starling.spark;

import dev.starling.errors.StarlingException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** A separate driver that trains, or prints why it cannot. */
final class DriverProgram {
    private DriverProgram() {
    }

    /**
     * Runs it.
     *
     * @param arguments the master, how executors get their flags ({@code plugin}, {@code none}), and the directory
     *     of checkpoints
     */
    public static void main(String[] arguments) {
        SparkSession.Builder builder = EmbeddedCluster.onThisClassPath(SparkSession.builder().master(arguments[0]))
                .config("spark.executor.extraJavaOptions", "-XX:+UseSerialGC").config("spark.executor.memory", "512m")
                .config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", false);
        if (arguments[1].equals("plugin")) {
            builder.config("spark.plugins", StarlingPlugin.class.getName());
        }
        try (SparkSession session = builder.appName("driver program").getOrCreate()) {
            Dataset<Row> points = session.range(0, 800, 1, 2).selectExpr("cast((id * 37) % 101 / 100.0 as float) as x",
                    "cast((id * 53) % 97 / 96.0 as float) as y").selectExpr("array(x, y) as point",
                    "cast(x + y > 1 as int) as label");
            if (arguments.length > 2) {
                points.write().mode("overwrite").parquet(arguments[2] + "/points");
                points = session.read().parquet(arguments[2] + "/points");
            }
            SparkTrainer trainer = SparkTrainerTest.trainer().workers(2);
            TrainedModel trained = (arguments.length > 2 ? trainer.checkpoints(arguments[2] + "/checkpoints") : trainer)
                    .fit(points);
            System.out.println("accuracy " + trained.epochs().getLast().training().metric("accuracy"));
        } catch (StarlingException e) {
            System.out.println("problem: " + e.getMessage());
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
