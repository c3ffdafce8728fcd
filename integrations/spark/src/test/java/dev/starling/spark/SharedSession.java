package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** The one session of all tests: two executor processes with a core each. Ends with the last test. */
public final class SharedSession implements BeforeAllCallback {
    private static SparkSession session;

    @Override
    public void beforeAll(ExtensionContext context) {
        context.getRoot().getStore(ExtensionContext.Namespace.GLOBAL).getOrComputeIfAbsent("spark", _ ->
                (AutoCloseable) SharedSession::stop);
    }

    /** Returns the directory of Spark's event log. */
    static Path events() {
        try {
            return Files.createDirectories(Path.of("target", "spark-events"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the flag by which this JVM compiles quickly, if it has it; executors of short tests use it too. */
    private static String compiler() {
        return ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(flag -> flag.startsWith("-XX:TieredStopAtLevel")).collect(Collectors.joining(" "));
    }

    private static synchronized void stop() {
        if (session != null) {
            session.stop();
            session = null;
        }
    }

    /** Returns the session. */
    public static synchronized SparkSession get() {
        if (session == null) {
            session = EmbeddedCluster.session(2, 1, 1024).appName("tests")
                    .config("spark.sql.shuffle.partitions", 2)
                    .config("spark.executor.extraJavaOptions", ExecutorFlags.AGRONA
                            + " -XX:+UseSerialGC -XX:MaxDirectMemorySize=256m -Dtest.log=info " + compiler())
                    // The output that a user can see: web pages and the event log.
                    .config("spark.ui.enabled", true).config("spark.ui.port", 0)
                    .config("spark.eventLog.enabled", true).config("spark.eventLog.compress", false)
                    .config("spark.eventLog.dir", events().toUri().toString())
                    .config("spark.sql.warehouse.dir", "target/warehouse").getOrCreate();
        }
        return session;
    }

    /** Waits until no executor computes. */
    public static void awaitIdle(SparkContext context, Duration timeout) throws InterruptedException {
        long begin = System.nanoTime();
        while (Stream.of(context.statusTracker().getExecutorInfos()).anyMatch(e -> e.numRunningTasks() > 0)) {
            assertThat(System.nanoTime() - begin).as("tasks still run").isLessThan(timeout.toNanos());
            Thread.sleep(50);
        }
    }

    /**
     * Points of a square, of class 1 above a diagonal: {@code x}, {@code y}, both as the array {@code point}, and
     * {@code label}. The first partition has {@code first} rows, the second the others.
     */
    public static Dataset<Row> points(int first, int rows) {
        return get().range(0, rows, 1, 2).repartitionById(2, functions.expr("case when id < " + first
                + " then 0 else 1 end")).selectExpr("id", "cast((id * 37) % 101 / 100.0 as float) as x",
                "cast((id * 53) % 97 / 96.0 as float) as y")
                .selectExpr("id", "x", "y", "array(x, y) as point", "cast(x + y > 1 as int) as label",
                        "cast(2 * x - y as double) as height");
    }
}
