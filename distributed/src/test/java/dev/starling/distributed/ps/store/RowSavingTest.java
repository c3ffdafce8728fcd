package dev.starling.distributed.ps.store;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Files of rows: their contents while rows change, and how other servers restore them. */
@Timeout(120)
class RowSavingTest {
    private static final Rule ADAM = new Rule.Adam(0.9, 0.999, 1e-8, 0, false);
    private static final String THREAD = "starling-ps-0-rows";
    private static final int WIDTH = 3;
    private static final int ROWS = 20_000;
    private static final Plan.Table TABLE = new Plan.Table("rows", WIDTH, ROWS, 0.5, ADAM);
    private static final Plan.Table OTHER = new Plan.Table("others", 2, 500, 0, new Rule.Adagrad(1e-8, 0, 0.25));

    @TempDir
    Path directory;
    private Path file;

    @BeforeEach
    void setFile() {
        file = directory.resolve("step-0000000007-0123abcd-0.rows");
    }

    private static Plan plan(int servers, Plan.Table... tables) {
        return new Plan(servers, 1, 64, new Consistency.Asynchronous(), List.of(), List.of(tables));
    }

    /** A table, and its expected contents: the same steps on arrays. */
    private static final class Twin implements AutoCloseable {
        final EmbeddingRows rows;
        final Map<Long, float[]> oracle = new HashMap<>();
        final Random random;
        private long sequence;

        Twin(Path at, int seed, int cached) throws IOException {
            rows = new EmbeddingRows(TABLE, at, cached * (4L * TABLE.stride() + 32));
            random = new Random(seed);
        }

        void step(long key) throws IOException {
            float[] all = oracle.computeIfAbsent(key, k -> {
                float[] row = new float[TABLE.stride()];
                rows.read(k, row, 0);
                return row;
            });
            float[] p = Arrays.copyOfRange(all, 0, WIDTH);
            float[] first = Arrays.copyOfRange(all, WIDTH, 2 * WIDTH);
            float[] second = Arrays.copyOfRange(all, 2 * WIDTH, 3 * WIDTH);
            float[] g = {random.nextFloat(), random.nextFloat() - 1, random.nextFloat() - 0.5f};
            TrainedWeightsTest.stepAlone(ADAM, 0.01, (long) ++all[3 * WIDTH], p, g, first, second);
            System.arraycopy(p, 0, all, 0, WIDTH);
            System.arraycopy(first, 0, all, WIDTH, WIDTH);
            System.arraycopy(second, 0, all, 2 * WIDTH, WIDTH);
            if (!rows.hasRoom(1)) {
                rows.flush(sequence);
            }
            rows.step(key, g, 0, 0.01);
            sequence++;
        }

        void steps(int n, int keys) throws IOException {
            for (int i = 0; i < n; i++) {
                step(random.nextInt(keys) * 7919L - 100);
            }
        }

        Map<Long, float[]> copy() {
            Map<Long, float[]> copy = new HashMap<>();
            oracle.forEach((key, row) -> copy.put(key, row.clone()));
            return copy;
        }

        @Override
        public void close() {
            rows.close();
        }
    }

    private static Map<Long, float[]> read(Path from) throws IOException {
        Map<Long, float[]> found = new HashMap<>();
        try (RowFile in = new RowFile(from)) {
            while (in.next()) {
                float[] row = new float[TABLE.stride()];
                in.row().asFloatBuffer().get(row);
                float[] twice = found.put(in.key, row);
                assertThat(twice == null || Arrays.equals(twice, row)).as("row %d the same again", in.key).isTrue();
            }
        }
        return found;
    }

    private static void assertSame(Map<Long, float[]> found, Map<Long, float[]> expected) {
        assertThat(found.keySet()).isEqualTo(expected.keySet());
        found.forEach((key, row) -> assertThat(row).as("row %d", key).containsExactly(expected.get(key)));
    }

    /** Rows change and are added before, between and after the segments that the scan delivers. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void aCutExcludesLaterChanges(int seed) throws IOException {
        try (Twin twin = new Twin(directory.resolve("table"), seed, 40)) {
            twin.steps(3000, 1500);
            for (int cut = 0; cut < 3; cut++) {
                Map<Long, float[]> expected = twin.copy();
                Map<Long, float[]> found = new HashMap<>();
                EmbeddingRows.Cut receiver = (key, row) -> {
                    float[] floats = new float[TABLE.stride()];
                    ByteBuffer.wrap(row).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(floats);
                    assertThat(found.put(key, floats)).as("row %d again", key).isNull();
                };
                twin.rows.cut(twin.sequence, receiver);
                int segments = 0;
                do {
                    twin.steps(twin.random.nextInt(300), 4000);
                    segments++;
                } while (twin.rows.scan(receiver));
                twin.rows.endCut();
                twin.steps(200, 4000);
                assertThat(segments).as("segments, between which rows change").isGreaterThan(3);
                assertSame(found, expected);
            }
        }
    }

    @Test
    void twoThreadsWriteTheCut() throws IOException {
        try (Twin twin = new Twin(directory.resolve("table"), 9, 300)) {
            twin.steps(30_000, 15_000);
            long changes = 0;
            for (int cut = 0; cut < 4; cut++) {
                Map<Long, float[]> expected = twin.copy();
                RowSaver task = new RowSaver(cut, file, cut);
                task.begin(plan(1, TABLE), 0, new EmbeddingRows[] {twin.rows}, twin.sequence, THREAD);
                while (!task.state().isOver()) {
                    twin.steps(10, ROWS);
                    changes += 10;
                }
                task.join();
                assertThat(task.state()).isInstanceOf(RowState.Saved.class);
                assertSame(read(file), expected);
            }
            assertThat(changes).as("rows that changed meanwhile").isGreaterThan(300);
        }
    }

    /** Writes a file of a server's rows, of the first keys of two tables, and returns its checksum. */
    private String write(Plan plan, int server, int few, Path to) throws IOException {
        try (EmbeddingRows rows = new EmbeddingRows(TABLE, directory.resolve("a" + server), 10_000);
                EmbeddingRows others = new EmbeddingRows(OTHER, directory.resolve("b" + server), 10_000)) {
            for (long key = 0; key < few; key++) {
                if (plan.serverOf(key) == server) {
                    rows.step(key, new float[] {key, 1, -1}, 0, 0.1);
                    others.step(key, new float[] {2, key}, 0, 0.1);
                }
            }
            RowSaver task = new RowSaver(1, to, 7);
            task.begin(plan, server, new EmbeddingRows[] {rows, others}, 1, null);
            assertThat(task.state()).isInstanceOf(RowState.Saved.class);
            RowState.Saved saved = (RowState.Saved) task.state();
            assertThat(saved.file()).isEqualTo(to.getFileName().toString());
            assertThat(saved.bytes()).isEqualTo(Files.size(to));
            return saved.checksum();
        }
    }

    private static void readAll(Path from, String checksum) throws IOException {
        try (RowFile in = new RowFile(from)) {
            while (in.next()) {
                assertThat(in.table).isBetween(0, 1);
            }
            in.verify(checksum);
        }
    }

    @Test
    void everyFlippedByteAndEveryTruncationIsDetected() throws IOException {
        String checksum = write(plan(1, TABLE, OTHER), 0, 5, file);
        readAll(file, checksum);
        byte[] whole = Files.readAllBytes(file);
        Path bad = directory.resolve("bad");
        for (int at = 0; at < whole.length; at++) {
            byte[] bytes = whole.clone();
            bytes[at] ^= (byte) (1 << at % 8);
            Files.write(bad, bytes);
            assertThatThrownBy(() -> readAll(bad, checksum)).as("flipped at %d", at)
                    .isInstanceOf(RowTask.RowException.class);
            if (at % 7 == 0) {
                Files.write(bad, Arrays.copyOf(whole, at));
                assertThatThrownBy(() -> readAll(bad, checksum)).as("cut at %d", at)
                        .isInstanceOf(RowTask.RowException.class);
            }
        }
        assertThatThrownBy(() -> readAll(file,
                "crc32c:00000000")).hasMessageContaining("belongs to another checkpoint");
    }

    @ParameterizedTest
    @CsvSource({"1, 1", "1, 3", "3, 1", "2, 4", "4, 2", "4, 6", "2, 3"})
    void eachServerFindsItsRowsWhateverTheNumberOfParts(int servers, int serversNext) throws IOException {
        Plan before = plan(servers, TABLE, OTHER);
        List<RowRequest.Source> parts = new ArrayList<>();
        for (int s = 0; s < servers; s++) {
            Path part = directory.resolve("part-" + s);
            parts.add(new RowRequest.Source(part, write(before, s, 40, part)));
        }
        // The tables have another order.
        Plan after = plan(serversNext, OTHER, TABLE);
        int[] found = new int[40];
        for (int s = 0; s < serversNext; s++) {
            try (EmbeddingRows others = new EmbeddingRows(OTHER, directory.resolve("c" + s), 10_000);
                    EmbeddingRows rows = new EmbeddingRows(TABLE, directory.resolve("d" + s), 10_000)) {
                RowTask task = new RowRestorer(1, after, s, new EmbeddingRows[] {others, rows}, parts, false,
                        () -> { });
                task.begin(null);
                assertThat(task.state()).isEqualTo(new RowState.Restored(2 * rows.size(), ""));
                assertThat(rows.size()).isEqualTo(others.size());
                for (long key = 0; key < 40; key++) {
                    if (after.serverOf(key) == s) {
                        found[(int) key]++;
                        assertWritten(rows, others, key);
                    }
                }
            }
        }
        assertThat(found).containsOnly(1);
    }

    /** Takes one more step on a row, which shows whether the state of the rule was restored, too. */
    private static void assertWritten(EmbeddingRows rows, EmbeddingRows others, long key) throws IOException {
        float[] p = new float[2];
        float[] sums = {0.25f, 0.25f};
        TrainedWeightsTest.stepAlone(OTHER.rule(), 0.1, 1, p, new float[] {2, key}, sums);
        TrainedWeightsTest.stepAlone(OTHER.rule(), 0.1, 2, p, new float[] {1, 1}, sums);
        int at = others.step(key, new float[] {1, 1}, 0, 0.1);
        assertThat(Arrays.copyOfRange(others.changed(), at, at + 5)).containsExactly(p[0], p[1], sums[0], sums[1], 2);
        float[] w = new float[WIDTH];
        float[] first = new float[WIDTH];
        float[] second = new float[WIDTH];
        for (int i = 0; i < WIDTH; i++) {
            long bits = Plan.mix(Plan.mix(key) + i);
            w[i] = (float) (TABLE.scale() * (2 * ((bits >>> 11) * 0x1p-53) - 1)) + 0f;
        }
        TrainedWeightsTest.stepAlone(ADAM, 0.1, 1, w, new float[] {key, 1, -1}, first, second);
        float[] read = new float[WIDTH];
        rows.read(key, read, 0);
        assertThat(read).containsExactly(w);
    }

    @Test
    void rowsOfAnotherRuleKeepTheirWeightsAndNewTablesAreNamed() throws IOException {
        String checksum = write(plan(1, TABLE, OTHER), 0, 40, file);
        Plan.Table changed = new Plan.Table("others", 2, 500, 0, ADAM);
        Plan.Table another = new Plan.Table("more", 2, 500, 0, ADAM);
        try (EmbeddingRows rows = new EmbeddingRows(TABLE, directory.resolve("c"), 10_000);
                EmbeddingRows others = new EmbeddingRows(changed, directory.resolve("d"), 10_000);
                EmbeddingRows more = new EmbeddingRows(another, directory.resolve("e"), 10_000)) {
            RowTask task = new RowRestorer(1, plan(1, TABLE, changed, another), 0,
                    new EmbeddingRows[] {rows, others, more}, List.of(new RowRequest.Source(file, checksum)), false,
                    () -> { });
            task.begin(null);
            assertThat(task.state()).isEqualTo(new RowState.Restored(80, "more"));
            int at = others.step(5, new float[] {0, 0}, 0, 1);
            float[] p = new float[2];
            TrainedWeightsTest.stepAlone(OTHER.rule(), 0.1, 1, p, new float[] {2, 5}, new float[] {0.25f, 0.25f});
            assertThat(Arrays.copyOfRange(others.changed(), at, at + 7)).containsExactly(p[0], p[1], 0, 0, 0, 0, 1);
        }
    }

    private static Plan.Table rmsprop(double momentum, boolean centred) {
        return new Plan.Table("rows", 2, 500, 0, new Rule.Rmsprop(0.9, 1e-3, 0, momentum, centred));
    }

    /** Centred RMSprop with momentum has three slots; with either alone it has two, of which one differs. */
    @ParameterizedTest
    @CsvSource({"0, false, 0, false, true", "0.9, true, 0.9, true, true", "0.9, false, 0.9, false, true",
        "0, true, 0, true, true", "0.9, false, 0, true, false", "0, true, 0.9, false, false",
        "0.9, true, 0.9, false, false"})
    void restoresTheStateOfTheSameVariantOfARule(double momentum, boolean centred, double momentumNext,
            boolean centredNext, boolean same) throws IOException {
        Plan.Table before = rmsprop(momentum, centred);
        Plan.Table after = rmsprop(momentumNext, centredNext);
        try (EmbeddingRows saved = new EmbeddingRows(before, directory.resolve("saved"), 10_000);
                EmbeddingRows restored = new EmbeddingRows(after, directory.resolve("restored"), 10_000)) {
            int at = saved.step(5, new float[] {2, -3}, 0, 0.1);
            float[] weights = Arrays.copyOfRange(saved.changed(), at, at + 2);
            RowSaver saver = new RowSaver(1, file, 7);
            saver.begin(plan(1, before), 0, new EmbeddingRows[] {saved}, 1, null);
            restore(plan(1, after), restored, file, ((RowState.Saved) saver.state()).checksum());
            float[] found = step(restored, after);
            if (same) {
                assertThat(found).containsExactly(step(saved, before));
            } else {
                float[] expected = Arrays.copyOf(weights, after.stride());
                expected[after.stride() - 1] = 1;
                assertThat(found).containsExactly(expected);
            }
        }
    }

    private static void restore(Plan plan, EmbeddingRows rows, Path from, String checksum) {
        RowTask task = new RowRestorer(1, plan, 0, new EmbeddingRows[] {rows},
                List.of(new RowRequest.Source(from, checksum)), false, () -> { });
        task.begin(null);
        assertThat(task.state()).isEqualTo(new RowState.Restored(1, ""));
    }

    /** Takes a step along a gradient of 0, and returns the whole row. */
    private static float[] step(EmbeddingRows rows, Plan.Table table) throws IOException {
        int at = rows.step(5, new float[] {0, 0}, 0, 0.1);
        return Arrays.copyOfRange(rows.changed(), at, at + table.stride());
    }

    /** Files of earlier versions contain the name of the rule without its slots. */
    @ParameterizedTest
    @CsvSource({"Adagrad, true", "Rmsprop, false"})
    void restoresTheStateInAnEarlierFileUnlessItIsAmbiguous(String name, boolean clear) throws IOException {
        Plan.Table table = clear ? new Plan.Table("rows", 2, 500, 0, OTHER.rule()) : rmsprop(0.9, false);
        Path earlier = directory.resolve("earlier");
        try (EmbeddingRows saved = new EmbeddingRows(table, directory.resolve("saved"), 10_000);
                EmbeddingRows restored = new EmbeddingRows(table, directory.resolve("restored"), 10_000)) {
            saved.step(5, new float[] {2, -3}, 0, 0.1);
            RowSaver saver = new RowSaver(1, file, 7);
            saver.begin(plan(1, table), 0, new EmbeddingRows[] {saved}, 1, null);
            assertThat(saver.state()).isInstanceOf(RowState.Saved.class);
            restore(plan(1, table), restored, earlier, writeEarlier(file, earlier, name, table));
            float[] continued = step(saved, table);
            if (clear) {
                assertThat(step(restored, table)).containsExactly(continued);
            } else {
                assertThat(step(restored, table)).isNotEqualTo(continued);
            }
        }
    }

    /** Copies a file of one row with another name of the rule; returns the checksum. */
    private static String writeEarlier(Path from, Path to, String rule, Plan.Table table) throws IOException {
        try (CheckedFile in = CheckedFile.read(from); CheckedFile out = CheckedFile.write(to)) {
            out.putLong(in.getLong());
            out.putLong(in.getLong());
            for (int i = 0; i < 3; i++) {
                out.putInt(in.getInt());
            }
            out.put(in.getBytes());
            out.putInt(in.getInt());
            out.putInt(in.getInt());
            out.putLong(in.getLong());
            assertThat(new String(in.getBytes(), StandardCharsets.UTF_8)).isEqualTo(rule + table.rule().slots());
            out.put(rule.getBytes(StandardCharsets.UTF_8));
            byte[] row = new byte[4 * table.stride()];
            out.putInt(in.getInt());
            out.putLong(in.getLong());
            in.getAll(row);
            out.putAll(row, row.length);
            out.putInt(in.getInt());
            out.putLong(in.getLong());
            return RowFile.checksum(out.commit());
        }
    }

    @Test
    void errorsNameTablesThatDoNotFit() throws IOException {
        String checksum = write(plan(1, TABLE, OTHER), 0, 40, file);
        for (Plan.Table other : List.of(new Plan.Table("others", 3, 500, 0, OTHER.rule()),
                new Plan.Table("others", 2, 500, 0.1, OTHER.rule()), new Plan.Table("else", 2, 500, 0, OTHER.rule()))) {
            assertFails(plan(1, TABLE, other), 0, file, checksum, "has rows of");
        }
        assertFails(plan(1, TABLE, OTHER), 0, directory.resolve("absent"), checksum, "does not exist for server 0");
        Path another = directory.resolve("another");
        String part = write(plan(2, TABLE, OTHER), 1, 40, another);
        assertFails(plan(1, TABLE, OTHER), 0, another, part, "server 1 of 2; expected that of server 0 of 1");
    }

    private void assertFails(Plan plan, int server, Path from, String checksum, String message) throws IOException {
        Path at = Files.createTempDirectory(directory, "tables");
        try (EmbeddingRows rows = new EmbeddingRows(plan.tables().get(0), at.resolve("rows"), 10_000);
                EmbeddingRows others = new EmbeddingRows(plan.tables().get(1), at.resolve("others"), 10_000)) {
            RowTask task = new RowRestorer(1, plan, server, new EmbeddingRows[] {rows, others},
                    List.of(new RowRequest.Source(from, checksum)), false, () -> {
                        throw new AssertionError("rows that do not fit are used");
                    });
            task.begin(null);
            assertThat(task.state()).isInstanceOfSatisfying(RowState.Failed.class, failed -> {
                assertThat(failed.file()).isEqualTo(from.toString());
                assertThat(failed.problem()).contains(message);
            });
        }
    }

    /** Otherwise the server could not start in this process after the problem was solved. */
    @Test
    void closesTheTablesBeforeOneThatCannotBeOpened() throws IOException {
        Path second = Files.createDirectory(directory.resolve("table-1.rows"));
        List<Plan.Table> tables = List.of(TABLE, OTHER);
        assertThatThrownBy(() -> EmbeddingRows.open(tables, directory, 10_000)).isNotNull();
        Files.delete(second);
        for (EmbeddingRows each : EmbeddingRows.open(tables, directory, 10_000)) {
            assertThat(each.size()).isZero();
            each.close();
        }
    }

    /** Worker 0 must not wait for a task whose thread has ended, for example because there was no memory. */
    @Test
    void anErrorFailsTheTask() throws IOException {
        Plan plan = plan(1, TABLE, OTHER);
        String checksum = write(plan, 0, 5, file);
        try (EmbeddingRows rows = new EmbeddingRows(TABLE, directory.resolve("c"), 10_000);
                EmbeddingRows others = new EmbeddingRows(OTHER, directory.resolve("d"), 10_000)) {
            RowTask task = new RowRestorer(1, plan, 0, new EmbeddingRows[] {rows, others},
                    List.of(new RowRequest.Source(file, checksum)), false, () -> {
                        throw new OutOfMemoryError("of a test");
                    });
            task.begin(THREAD);
            task.join();
            assertThat(task.state()).isInstanceOfSatisfying(RowState.Failed.class,
                    failed -> assertThat(failed.problem()).contains("of a test"));
        }
    }

    /** A full disk fails the task, and rows can still change. */
    @Test
    void aFullDiskFailsTheFileAndNothingElse() throws IOException {
        Path full = Path.of("/dev/full");
        assumeTrue(Files.exists(full), "this machine has no /dev/full, which is a disk without space");
        try (Twin twin = new Twin(directory.resolve("table"), 2, 300)) {
            twin.steps(30_000, 15_000);
            Files.createSymbolicLink(CheckedFile.draft(file), full);
            RowSaver task = new RowSaver(1, file, 1);
            task.begin(plan(1, TABLE), 0, new EmbeddingRows[] {twin.rows}, twin.sequence, THREAD);
            twin.steps(1000, ROWS);
            task.join();
            assertThat(task.state()).isInstanceOfSatisfying(RowState.Failed.class,
                    failed -> assertThat(failed.problem()).contains("No space left"));
            assertThat(file).doesNotExist();
            assertThat(CheckedFile.draft(file)).doesNotExist();
            twin.steps(1000, ROWS);
            RowSaver again = new RowSaver(2, file, 2);
            again.begin(plan(1, TABLE), 0, new EmbeddingRows[] {twin.rows}, twin.sequence, null);
            assertSame(read(file), twin.oracle);
        }
    }
}
