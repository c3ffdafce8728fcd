package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.store.EmbeddingRows;
import dev.starling.distributed.ps.store.TrainedWeightsTest;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Rows in a file that may be larger than memory. */
@Timeout(120)
class EmbeddingRowsTest {
    private static final Rule ADAM = new Rule.Adam(0.9, 0.999, 1e-8, 0, false);
    private static final int WIDTH = 5;

    @TempDir
    Path directory;

    /** The oracle takes the same steps on its own arrays. */
    @Test
    void rowsTakeTheirOwnStepsAndSurvive() throws IOException {
        Plan.Table table = new Plan.Table("rows", WIDTH, 2000, 0.5, ADAM);
        Path file = directory.resolve("rows");
        Map<Long, float[][]> oracle = new HashMap<>();
        Map<Long, Integer> steps = new HashMap<>();
        Random random = new Random(4);
        for (int life = 0; life < 3; life++) {
            try (EmbeddingRows rows = new EmbeddingRows(table, file, 64 * 100)) {
                for (int i = 0; i < 2000; i++) {
                    long key = random.nextInt(300) * 1_000_003L - 150;
                    float[] read = new float[WIDTH];
                    rows.read(key, read, 0);
                    float[][] expected = oracle.computeIfAbsent(key, k -> new float[][]{read.clone(),
                        new float[WIDTH], new float[WIDTH]});
                    assertThat(read).containsExactly(expected[0]);
                    float[] g = new float[WIDTH];
                    for (int j = 0; j < WIDTH; j++) {
                        g[j] = (float) random.nextGaussian();
                    }
                    if (!rows.hasRoom(1)) {
                        rows.flush(0);
                    }
                    rows.step(key, g, 0, 0.01);
                    TrainedWeightsTest.stepAlone(ADAM, 0.01, steps.merge(key, 1, Integer::sum), expected[0], g,
                            expected[1], expected[2]);
                }
                rows.flush(0);
                assertThat(rows.size()).isEqualTo(oracle.size());
            }
        }
    }

    @Test
    void unwrittenRowsAreUniformAndTakeNoSpace() throws IOException {
        try (EmbeddingRows rows = new EmbeddingRows(new Plan.Table("rows", WIDTH, 100, 0.5, ADAM),
                directory.resolve("rows"), 10_000)) {
            double sum = 0;
            double squares = 0;
            float[] row = new float[WIDTH];
            for (long key = 0; key < 20_000; key++) {
                rows.read(key, row, 0);
                for (float value : row) {
                    assertThat(value).isBetween(-0.5f, 0.5f);
                    sum += value;
                    squares += value * value;
                }
            }
            assertThat(sum / 100_000).isBetween(-0.005, 0.005);
            assertThat(squares / 100_000).isBetween(1 / 12.0 - 0.001, 1 / 12.0 + 0.001);
            assertThat(rows.size()).isZero();
        }
    }

    @Test
    void aFullTableIsNamed() throws IOException {
        try (EmbeddingRows rows = new EmbeddingRows(new Plan.Table("items", WIDTH, 4, 0.5, ADAM),
                directory.resolve("rows"), 10_000)) {
            for (int key = 0; key < 5000; key++) {
                rows.step(key, new float[WIDTH], 0, 0.1);
            }
            assertThatThrownBy(() -> rows.flush(0)).isInstanceOf(ServerException.class)
                    .hasMessageMatching("table items is full: .*rows has \\d+ rows, and a capacity of 4; build .*");
        }
    }

    /** Writes and reads rows of five times the size of the process's heap. */
    static final class Large {
        static final int WIDE = 256;
        static final int ROWS = 120_000;

        private Large() {
        }

        public static void main(String[] args) throws IOException {
            Plan.Table table = new Plan.Table("rows", WIDE, ROWS, 0, new Rule.Sgd(0, 0, 0, false));
            float[] g = new float[WIDE];
            float[] row = new float[WIDE];
            try (EmbeddingRows rows = new EmbeddingRows(table, Path.of(args[0]), 4 << 20)) {
                for (int key = 0; key < ROWS; key++) {
                    java.util.Arrays.fill(g, key);
                    if (!rows.hasRoom(1)) {
                        rows.flush(0);
                    }
                    rows.step(key, g, 0, 1);
                }
                rows.flush(0);
                for (int key = 0; key < ROWS; key += 7) {
                    rows.read(key, row, 0);
                    if (row[0] != -key || row[WIDE - 1] != -key) {
                        throw new AssertionError("row " + key + " is " + row[0]);
                    }
                }
            }
            System.out.println("read back " + (long) ROWS * WIDE * 4 + " bytes with a heap of "
                    + Runtime.getRuntime().maxMemory());
        }
    }

    @Test
    void aTableMayBeLargerThanTheHeap() throws IOException, InterruptedException {
        Process process = ServerCrashTest.start(Large.class, "-Xmx24m", directory.resolve("large").toString());
        try {
            assertThat(process.waitFor(100, TimeUnit.SECONDS)).isTrue();
            assertThat(new String(process.getInputStream().readAllBytes())).contains("read back 122880000 bytes");
            assertThat(process.exitValue()).isZero();
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void sendsNoAnalytics() {
        assertThatThrownBy(() -> Class.forName("net.openhft.chronicle.analytics.Analytics"))
                .isInstanceOf(ClassNotFoundException.class);
        for (String entry : System.getProperty("java.class.path").split(java.io.File.pathSeparator)) {
            assertThat(entry).doesNotContain("analytics");
        }
        assertThat(System.getProperty("chronicle.analytics.disable")).as("no system property is set").isNull();
    }

    @Test
    void tablesNeedADirectory() {
        Plan plan = new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(),
                List.of(new Plan.Table("rows", WIDTH, 100, 0.5, ADAM)));
        assertThatThrownBy(() -> new ServerDriver(ServerConfig.inMemory(), plan)).isInstanceOf(ServerException.class)
                .hasMessageContaining("directory");
    }
}
