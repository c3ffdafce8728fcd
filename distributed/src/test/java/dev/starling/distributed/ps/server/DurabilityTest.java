package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Restarts of a server from its directory. */
@Timeout(120)
class DurabilityTest {
    private static final Plan PLAN = ServerDriver.plan(2, new Consistency.Asynchronous(), ServerDriver.PLAIN, 3, 2);

    @TempDir
    Path directory;

    /** Writes a journal of the initial weights and four updates of 1 to block 0; stores the ends of its records. */
    private Path journaled(long[] ends) throws IOException, InterruptedException {
        Path live = directory.resolve("live");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(live), PLAN)) {
            Path journal = Journal.files(live).getFirst();
            d.join(0, 7, 0, 0, 0, 0);
            ends[0] = Files.size(journal);
            for (int k = 0; k < 4; k++) {
                d.push(0, 7, k, 0, 1, 1, 1, 1);
                ends[k + 1] = Files.size(journal);
            }
            return ServerDriver.copy(live, directory.resolve("killed"));
        }
    }

    private static int updates(Path at) throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerDriver.config(at), PLAN)) {
            float[] weights = d.pull(0);
            if (weights.length == 0) {
                return -1;
            }
            assertThat(weights).containsOnly(weights[0]);
            assertThat(d.join(0, 7, 0).sequence()).as("the last update that is known")
                    .isEqualTo((long) -weights[0] - 1);
            return (int) -weights[0];
        }
    }

    /** Returns the same number as {@link #updates}, without the threads of a server. */
    private static long replayed(Path at) throws IOException {
        try (Shard shard = new Shard(PLAN, 0, at, 1)) {
            shard.load(at.resolve("snapshot"));
            return new JournalReader().read(at, shard.sequence(), shard::replay) - 1;
        }
    }

    @Test
    void reportsThatItsThreadWasInterrupted() {
        Thread.currentThread().interrupt();
        try {
            assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(directory), PLAN))
                    .isInstanceOf(ServerException.class).hasMessageContaining("its thread was interrupted");
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    @Tag("processes")
    void namesTheFlagsThatTablesNeed() throws IOException, InterruptedException {
        Path output = directory.resolve("output");
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED", "-cp", System.getProperty("java.class.path"),
                WithoutFlags.class.getName(), directory.toString()).redirectErrorStream(true)
                .redirectOutput(output.toFile()).start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
        } finally {
            process.destroyForcibly();
        }
        assertThat(output).content().contains("the parameter server in " + directory + " cannot start: Chronicle Map, "
                + "which holds tables, cannot be initialised; start java with --add-exports=java.base/sun.nio.ch=ALL-"
                + "UNNAMED");
    }

    /** Opens a server with a table and prints why it cannot. */
    static final class WithoutFlags {
        private WithoutFlags() {
        }

        public static void main(String[] arguments) {
            Plan plan = new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(),
                    List.of(new Plan.Table("rows", 2, 100, 0, ServerDriver.PLAIN)));
            try (ServerDriver server = new ServerDriver(ServerDriver.config(Path.of(arguments[0])), plan)) {
                IO.println("started");
            } catch (ServerException e) {
                IO.println(e.getMessage());
            }
        }
    }

    /** Numbers of this locale have other digits than those of file names. */
    @Test
    void namesAJournalAlikeInEveryLocale() throws IOException {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try (Journal journal = new Journal(directory, 12)) {
            journal.rotate(34);
        } finally {
            Locale.setDefault(before);
        }
        assertThat(directory.toFile().list()).containsExactly("journal-0000000000000000034");
    }

    @Test
    void aTornJournalIsValidUpToItsLastCompleteRecord() throws IOException, InterruptedException {
        long[] ends = new long[5];
        Path killed = journaled(ends);
        byte[] whole = Files.readAllBytes(Journal.files(killed).getFirst());
        assertThat((long) whole.length).isEqualTo(ends[4]);
        for (int length = 0; length <= whole.length; length++) {
            Path torn = ServerDriver.copy(killed, directory.resolve("torn-" + length));
            Files.write(Journal.files(torn).getFirst(), Arrays.copyOf(whole, length));
            int records = 0;
            while (records < 5 && ends[records] <= length) {
                records++;
            }
            assertThat(replayed(torn)).as("cut at %d", length).isEqualTo(records - 1);
            if (length % 100 == 0) {
                assertThat(updates(torn)).as("cut at %d", length).isEqualTo(records - 1);
                assertThat(updates(torn)).as("cut at %d, begun twice", length).isEqualTo(records - 1);
            }
        }
    }

    @Test
    void detectsAFlippedByte() throws IOException, InterruptedException {
        long[] ends = new long[5];
        Path killed = journaled(ends);
        byte[] whole = Files.readAllBytes(Journal.files(killed).getFirst());
        for (int at = 0; at < whole.length; at++) {
            Path bad = ServerDriver.copy(killed, directory.resolve("bad-" + at));
            byte[] bytes = whole.clone();
            bytes[at] ^= (byte) (1 << at % 8);
            Files.write(Journal.files(bad).getFirst(), bytes);
            int records = 0;
            while (ends[records] <= at) {
                records++;
            }
            if (records == 4) {
                assertThat(replayed(bad)).as("flipped at %d", at).isEqualTo(records - 1);
            } else {
                assertThatThrownBy(() -> replayed(bad)).as("flipped at %d", at).hasMessageContaining("is damaged: "
                        + "record " + (records + 1) + " is not intact, but record " + (records + 2) + " after it is; "
                        + "put an intact copy back, or give the server an empty directory and resume from a "
                        + "checkpoint");
            }
        }
    }

    /** A system that fails may have written later pages of a file, but not earlier ones, since it was last forced. */
    @Test
    void recordsThatWereForcedTogetherMayBeTornInAnyOrder() throws IOException {
        Request e = new Request(64, 1);
        e.recordKind = Journal.CLOCKS;
        try (Journal journal = new Journal(directory, 1)) {
            for (e.record = 1; e.record <= 5; e.record++) {
                journal.append(e);
                if (e.record == 2) {
                    journal.force();
                }
            }
        }
        Path file = Journal.files(directory).getFirst();
        byte[] whole = Files.readAllBytes(file);
        for (int bad = 0; bad < 5; bad++) {
            byte[] bytes = whole.clone();
            bytes[bad * Journal.RECORD_HEADER + Journal.CRC]++;
            Files.write(file, bytes);
            if (bad < 2) {
                assertThatThrownBy(() -> new JournalReader().read(directory, 0, record -> { }))
                        .hasMessageContaining("is damaged: record " + (bad + 1));
            } else {
                assertThat(new JournalReader().read(directory, 0, record -> { })).isEqualTo(bad);
            }
            // Journals of earlier releases do not store which records were forced together.
            CRC32C crc = new CRC32C();
            ByteBuffer records = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            for (int at = 0; at < bytes.length; at += Journal.RECORD_HEADER) {
                records.putInt(at + Journal.UNFORCED, 0);
                crc.reset();
                crc.update(bytes, at + Journal.SEQUENCE, Journal.RECORD_HEADER - Journal.SEQUENCE);
                records.putInt(at + Journal.CRC, (int) crc.getValue() + (at == bad * Journal.RECORD_HEADER ? 1 : 0));
            }
            Files.write(file, bytes);
            assertThat(new JournalReader().read(directory, 0, record -> { })).isEqualTo(bad);
        }
    }

    /** The keys of a torn record of rows may look like the lengths of others. */
    @Test
    @Timeout(20)
    void aTornJournalOfManyKeysIsReadInTime() throws IOException {
        ByteBuffer keys = ByteBuffer.allocate(8 << 20).order(ByteOrder.LITTLE_ENDIAN);
        while (keys.hasRemaining()) {
            keys.putLong(1 << 20);
        }
        Files.write(directory.resolve("journal-0000000000000000001"), keys.array());
        assertThat(new JournalReader().read(directory, 0, record -> { })).isZero();
    }

    @Test
    void aRestartedServerHasTheBitsOfAnUninterruptedOne() throws IOException, InterruptedException {
        for (Rule rule : new Rule[] {new Rule.Sgd(0.9, 0, 0.01, false),
            new Rule.Adam(0.9, 0.999, 1e-8, 0, false), new Rule.Adagrad(1e-8, 0, 0.5)}) {
            Plan plan = ServerDriver.plan(1, new Consistency.Asynchronous(), rule, 100);
            float[] unbroken = run(plan, null, 40, new int[0]);
            assertThat(run(plan, directory.resolve("a" + rule.name()), 40, 3, 17, 18, 30))
                    .as("closed and killed in between, %s", rule).containsExactly(unbroken);
        }
    }

    /** Takes steps; at some of them the server is closed, at odd ones replaced by the state that a kill would leave. */
    private float[] run(Plan plan, Path at, int steps, int... breaks) throws IOException, InterruptedException {
        Random random = new Random(3);
        ServerDriver d = new ServerDriver(at == null ? ServerConfig.inMemory() : ServerDriver.config(at), plan);
        try {
            // There are two blocks, of 64 and 36 elements.
            d.join(0, 7, 0, new float[64]);
            d.join(0, 7, 1, new float[36]);
            Path where = at;
            for (int k = 0; k < steps; k++) {
                for (int unit = 0; unit < 2; unit++) {
                    float[] g = new float[unit == 0 ? 64 : 36];
                    for (int i = 0; i < g.length; i++) {
                        g[i] = (float) random.nextGaussian();
                    }
                    d.push(0, 7, k, unit, 0.01, k % 5 == 4 ? new float[0] : g);
                }
                int now = k;
                if (Arrays.stream(breaks).anyMatch(b -> b == now)) {
                    Path next = k % 2 == 1
                            ? ServerDriver.copy(where, where.resolveSibling(where.getFileName() + "-" + k)) : where;
                    d.close();
                    where = next;
                    d = new ServerDriver(ServerDriver.config(where), plan);
                }
            }
            float[] all = Arrays.copyOf(d.pull(0), 100);
            System.arraycopy(d.pull(1), 0, all, 64, 36);
            return all;
        } finally {
            d.close();
        }
    }

    @Test
    void theJournalStaysBoundedAndSnapshotsLoseNothing() throws IOException, InterruptedException {
        Path at = directory.resolve("bounded");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(at).journalBytes(4000), PLAN)) {
            d.join(0, 7, 0, 0, 0, 0);
            for (int k = 0; k < 1000; k++) {
                d.push(0, 7, k, 0, 1, 1, 1, 1);
                if (k % 10 == 0) {
                    assertThat(Journal.files(at)).hasSize(1);
                    assertThat(Files.size(Journal.files(at).getFirst())).isLessThan(4200);
                }
                if (k % 97 == 0) {
                    Path killed = ServerDriver.copy(at, directory.resolve("killed-" + k));
                    assertThat(updates(killed)).isEqualTo(k + 1);
                }
            }
        }
        assertThat(updates(at)).isEqualTo(1000);
    }

    @Test
    void ignoresAnUnfinishedSnapshotAndAnOldJournal() throws IOException, InterruptedException {
        Path at = directory.resolve("live");
        Path old = directory.resolve("old");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(at), PLAN)) {
            d.join(0, 7, 0, 0, 0, 0);
            for (int k = 0; k < 5; k++) {
                d.push(0, 7, k, 0, 1, 1, 1, 1);
            }
            ServerDriver.copy(at, old);
        }
        // Begins another journal, behind the snapshot.
        new ServerDriver(ServerDriver.config(at), PLAN).close();
        Path journal = Journal.files(old).getFirst();
        Files.copy(journal, at.resolve(journal.getFileName()));
        Files.write(at.resolve("snapshot.tmp"), new byte[]{1, 2, 3});
        assertThat(updates(at)).isEqualTo(5);
    }

    /** The end of the second server's access to the lock file would end the first one's lock. */
    @Test
    void aSecondServerOfTheProcessLeavesTheLockFileAlone() throws IOException {
        Path at = directory.resolve("live");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(at), PLAN)) {
            Files.delete(at.resolve("lock"));
            Path same = Files.createSymbolicLink(directory.resolve("link"), at);
            for (Path path : new Path[]{at, same}) {
                assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(path), PLAN))
                        .isInstanceOf(ServerException.class).hasMessageContaining("another server uses " + path);
            }
            assertThat(at.resolve("lock")).doesNotExist();
        }
        new ServerDriver(ServerDriver.config(at), PLAN).close();
    }

    @Test
    void errorsNameTheCause() throws IOException, InterruptedException {
        Path at = directory.resolve("live");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(at), PLAN)) {
            d.join(0, 7, 0, 0, 0, 0);
            assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(at), PLAN))
                    .isInstanceOf(ServerException.class)
                    .hasMessageContaining("another server uses " + at);
        }
        Plan other = ServerDriver.plan(3, new Consistency.Asynchronous(), ServerDriver.PLAIN, 3, 2);
        assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(at), other)).isInstanceOf(ServerException.class)
                .hasMessageContaining("of another run").hasMessageContaining("empty directory");
        byte[] bytes = Files.readAllBytes(at.resolve("snapshot"));
        bytes[bytes.length / 2] ^= 1;
        Files.write(at.resolve("snapshot"), bytes);
        assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(at), PLAN)).isInstanceOf(ServerException.class)
                .hasMessageContaining("snapshot");
    }
}
