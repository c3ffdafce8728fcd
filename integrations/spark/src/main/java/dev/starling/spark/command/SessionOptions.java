package dev.starling.spark.command;

import dev.starling.spark.EmbeddedCluster;
import dev.starling.spark.ExecutorFlags;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import picocli.CommandLine.Option;

/** Options of a command's Spark session and input. */
final class SessionOptions {
    @Option(names = "--master", paramLabel = "URL", description = "The cluster, for example spark://host:7077, "
            + "whose executors have Starling on their class path (default: that of spark-submit, or executor "
            + "processes of this machine).")
    private String master;

    @Option(names = "--executors", paramLabel = "N", defaultValue = "2",
            description = "Executor processes on this machine (default: ${DEFAULT-VALUE}).")
    private int executors;

    @Option(names = "--cores", paramLabel = "N", defaultValue = "1",
            description = "Cores of each (default: ${DEFAULT-VALUE}).")
    private int cores;

    @Option(names = "--memory", paramLabel = "MIB", defaultValue = "1024",
            description = "Heap of each in MiB (default: ${DEFAULT-VALUE}).")
    private int memory;

    @Option(names = "--data", paramLabel = "URI", description = "What to read (default: points of two spirals).")
    private String data;

    @Option(names = "--format", paramLabel = "F", defaultValue = "parquet",
            description = "parquet, orc, json, or csv with a header (default: ${DEFAULT-VALUE}).")
    private String format;

    SparkSession open() {
        // The master of spark-submit's command, or null.
        String submitted = System.getProperty("spark.master");
        SparkSession.Builder builder = master == null && submitted == null
                ? EmbeddedCluster.session(executors, cores, memory) : ExecutorFlags.addTo(SparkSession.builder()
                .master(master == null ? submitted : master),
                System.getProperty("spark.executor.extraJavaOptions", ""));
        return builder.appName("starling").getOrCreate();
    }

    Dataset<Row> read(SparkSession session) {
        if (data != null) {
            return read(session, data);
        }
        return session.range(0, 20_000, 1, executors).selectExpr("id", "cast(id % 2 as int) as label",
                "(0.2 + rand(1)) * 6 as turn").selectExpr("label",
                "cast(turn * cos(turn + label * pi()) / 7 + 0.02 * randn(2) as float) as x",
                "cast(turn * sin(turn + label * pi()) / 7 + 0.02 * randn(3) as float) as y");
    }

    Dataset<Row> read(SparkSession session, String address) {
        return session.read().format(format).option("header", true).option("inferSchema", true).load(address);
    }
}
