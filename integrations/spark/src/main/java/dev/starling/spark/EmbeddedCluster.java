package dev.starling.spark;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotLinkException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;

/**
 * A cluster of executor processes on this machine that use the jars on this program's class path: no installation of
 * Spark is needed. Three environment variables must be set: {@code SPARK_HOME}, a directory that this class fills,
 * {@code SPARK_SCALA_VERSION=2.13}, and {@code SPARK_LOCAL_IP=127.0.0.1}. In the directory's {@code jars}, symbolic
 * links to jars that are not on this class path are deleted.
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
        try {
            return ExecutorFlags.addTo(builder.config("spark.executor.extraClassPath",
                    String.join(File.pathSeparator, linkAll(jars, System.getProperty("java.class.path")))), "");
        } catch (IOException e) {
            throw new UncheckedIOException("cannot link the class path in " + jars + ": " + e.getMessage(), e);
        }
    }

    /**
     * Links the jars of a class path in a directory, and deletes the directory's other links. Processes with the same
     * class path may call this at the same time.
     *
     * @return the directories of the class path
     */
    static List<String> linkAll(Path jars, String classPath) throws IOException {
        Files.createDirectories(jars);
        List<String> directories = new ArrayList<>();
        Set<Path> links = new HashSet<>();
        for (String entry : classPath.split(File.pathSeparator)) {
            Path path = Path.of(entry).toAbsolutePath();
            if (Files.isDirectory(path)) {
                directories.add(path.toString());
            } else if (Files.exists(path)) {
                Path link = jars.resolve(path.getFileName());
                links.add(link);
                if (!path.startsWith(jars)) {
                    link(link, path);
                }
            }
        }
        try (DirectoryStream<Path> others = Files.newDirectoryStream(jars,
                file -> Files.isSymbolicLink(file) && !links.contains(file))) {
            for (Path other : others) {
                Files.deleteIfExists(other);
            }
        }
        return directories;
    }

    private static void link(Path link, Path target) throws IOException {
        while (!leadsTo(link, target)) {
            Files.deleteIfExists(link);
            try {
                Files.createSymbolicLink(link, target);
            } catch (FileAlreadyExistsException e) {
                // Another process has created a link since; the loop compares its target.
            }
        }
    }

    private static boolean leadsTo(Path link, Path target) throws IOException {
        try {
            return Files.readSymbolicLink(link).equals(target);
        } catch (NoSuchFileException | NotLinkException e) {
            return false;
        }
    }
}
