package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The links to a class path, without Spark. */
class EmbeddedClusterTest {
    @TempDir
    private Path directory;
    private Path jars;
    private Path old;
    private Path current;

    @BeforeEach
    void jars() throws IOException {
        jars = Files.createDirectories(directory.resolve("home/jars"));
        old = Files.createFile(directory.resolve("nn-1.jar"));
        current = Files.createFile(directory.resolve("nn-2.jar"));
    }

    @Test
    void linksThisClassPathOnly() throws IOException {
        Path file = Files.createFile(jars.resolve("spark.jar"));
        assertThat(EmbeddedCluster.linkAll(jars, old + File.pathSeparator + directory))
                .containsExactly(directory.toString());
        assertThat(jars.resolve("nn-1.jar")).isSymbolicLink();
        Path added = Files.createSymbolicLink(jars.resolve("added.jar"), old);
        assertThat(EmbeddedCluster.linkAll(jars, current + File.pathSeparator + added)).isEmpty();
        try (Stream<Path> links = Files.list(jars)) {
            assertThat(links).containsExactlyInAnyOrder(file, added, jars.resolve("nn-2.jar"));
        }
        assertThat(Files.readSymbolicLink(jars.resolve("nn-2.jar"))).isEqualTo(current);
    }

    @Test
    void startsConcurrently() throws Exception {
        Path link = jars.resolve("nn-2.jar");
        List<Callable<List<String>>> starts = Collections.nCopies(4, () -> EmbeddedCluster.linkAll(jars,
                current.toString()));
        try (ExecutorService threads = Executors.newFixedThreadPool(4)) {
            for (int round = 0; round < 100; round++) {
                Files.deleteIfExists(link);
                Files.createSymbolicLink(link, old);
                for (Future<List<String>> start : threads.invokeAll(starts)) {
                    assertThat(start.get()).isEmpty();
                }
                assertThat(Files.readSymbolicLink(link)).isEqualTo(current);
            }
        }
    }
}
