package dev.starling.spark;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;

/**
 * A cluster of executor processes on this machine that use the jars on this program's class path: no installation of
 * Spark is needed. Three environment variables must be set: {@code SPARK_HOME}, a directory that this class fills,
 * {@code SPARK_SCALA_VERSION=2.13}, and {@code SPARK_LOCAL_IP=127.0.0.1}.
 */
public final class EmbeddedCluster {
    private EmbeddedCluster() {
    }

    /**
     * Returns a builder of a session on a cluster of this machine, with the flags that executors need.
     *
     * @param executors number of executor processes
     * @param cores of each
     * @param memoryMegabytes of each one's heap
     */
    public static SparkSession.Builder session(int executors, int cores, int memoryMegabytes) {
        if (executors < 1 || cores < 1 || memoryMegabytes < 1) {
            throw new SparkJobException("a cluster needs 1 executor or more, each with 1 core and 1 MiB or more; got "
                    + executors + " executors with " + cores + " cores and " + memoryMegabytes + " MiB");
        }
        SparkSession.Builder builder = onThisClassPath(SparkSession.builder()
                .master("local-cluster[" + executors + ',' + cores + ',' + memoryMegabytes + ']')
                .config("spark.executor.memory", memoryMegabytes + "m"));
        return builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", false)
                .config("spark.executor.heartbeatInterval", "3s");
    }

    /** Adds this program's class path to executors on this machine. */
    static SparkSession.Builder onThisClassPath(SparkSession.Builder builder) {
        String home = System.getenv("SPARK_HOME");
        if (home == null || !"2.13".equals(System.getenv("SPARK_SCALA_VERSION"))) {
            throw new SparkJobException("a cluster of this class path needs the environment variables SPARK_HOME, a "
                    + "directory to fill, and SPARK_SCALA_VERSION=2.13; got SPARK_HOME=" + home
                    + " and SPARK_SCALA_VERSION=" + System.getenv("SPARK_SCALA_VERSION"));
        }
        Path jars = Path.of(home, "jars").toAbsolutePath();
        List<String> directories = new ArrayList<>();
        try {
            Files.createDirectories(jars);
            for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
                Path path = Path.of(entry).toAbsolutePath();
                if (Files.isDirectory(path)) {
                    directories.add(path.toString());
                } else if (Files.exists(path) && !path.startsWith(jars)) {
                    link(jars.resolve(path.getFileName()), path);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("cannot link the class path in " + jars + ": " + e.getMessage(), e);
        }
        return ExecutorFlags.addTo(builder.config("spark.executor.extraClassPath",
                String.join(File.pathSeparator, directories)), "");
    }

    private static void link(Path link, Path target) throws IOException {
        if (!Files.isSymbolicLink(link) || !Files.readSymbolicLink(link).equals(target)) {
            Files.deleteIfExists(link);
            Files.createSymbolicLink(link, target);
        }
    }
}
