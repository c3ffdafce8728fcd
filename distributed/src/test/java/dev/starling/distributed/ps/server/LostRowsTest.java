package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.store.RowTask;
import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A server whose file of rows is damaged does not serve initial rows in place of the lost ones. */
@Timeout(120)
class LostRowsTest {
    private static final int WIDTH = 4;
    private static final int ROWS = 2000;
    private static final Plan PLAN = new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(),
            List.of(new Plan.Table("items", WIDTH, ROWS, 0, ServerDriver.PLAIN)));

    @TempDir
    Path directory;
    private Path live;
    private long pushes;

    @BeforeEach
    void setDirectory() {
        live = directory.resolve("live");
    }

    private void push(ServerDriver server, long from, long to) throws InterruptedException {
        for (long key = from; key < to; key += 5) {
            float[] ones = new float[5 * WIDTH];
            Arrays.fill(ones, 1);
            server.request(server.request.pushRows(0, 7, pushes++, 0, 1, 1, 1, 5, LongStream.range(key, key + 5)
                    .toArray(), ones));
        }
    }

    private static void assertRows(Path at, int n) throws InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(at), PLAN)) {
            for (int key = 0; key < n; key += 5) {
                assertThat(server.request(server.request.pullRows(0, LongStream.range(key, key + 5).toArray()))
                        .floats()).containsOnly(-1);
            }
        }
    }

    private static void assertLost(Path at, String rows) {
        for (int start = 0; start < 2; start++) {
            assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(at), PLAN))
                    .isInstanceOf(ServerException.class).hasMessageMatching(".*table-0.rows has lost " + rows
                    + " rows of table items; put an intact copy back, or give the server an empty directory and resume "
                    + "from a checkpoint");
        }
    }

    /** Changes the weights of {@code n} rows in the file. */
    private static void damage(Path at, int n) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(at.resolve("table-0.rows").toFile(), "rw")) {
            byte[] bytes = new byte[(int) file.length()];
            file.readFully(bytes);
            byte[] row = {0, 0, -128, -65, 0, 0, -128, -65, 0, 0, -128, -65, 0, 0, -128, -65};
            int done = 0;
            for (int i = 0; i < bytes.length - row.length && done < n; i++) {
                if (Arrays.equals(bytes, i, i + row.length, row, 0, row.length)) {
                    file.seek(i + 2);
                    file.write(1);
                    done++;
                    i += row.length;
                }
            }
            assertThat(done).isEqualTo(n);
        }
    }

    @Test
    void rowsOfTheSnapshot() throws IOException, InterruptedException {
        train(1000);
        assertRows(ServerDriver.copy(live, directory.resolve("intact")), 1000);
        Path flipped = ServerDriver.copy(live, directory.resolve("flipped"));
        damage(flipped, 3);
        assertLost(flipped, "3 of 1000");
        Path deleted = ServerDriver.copy(live, directory.resolve("deleted"));
        Files.delete(deleted.resolve("table-0.rows"));
        assertLost(deleted, "1000 of 1000");
        Path half = ServerDriver.copy(live, directory.resolve("half"));
        Path file = half.resolve("table-0.rows");
        Files.write(file, Arrays.copyOf(Files.readAllBytes(file), (int) (Files.size(file) / 2)));
        assertLost(half, "\\d+ of 1000");
        Files.copy(live.resolve("table-0.rows"), deleted.resolve("table-0.rows"),
                StandardCopyOption.REPLACE_EXISTING);
        assertRows(deleted, 1000);
    }

    /** Rows that were new after the snapshot do not make up for lost ones, and those of the journal are not lost. */
    @Test
    void rowsOfTheSnapshotAndTheJournal() throws IOException, InterruptedException {
        train(500);
        Path killed = directory.resolve("killed");
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live), PLAN)) {
            push(server, 500, 1000);
            ServerDriver.copy(live, killed);
        }
        assertRows(ServerDriver.copy(killed, directory.resolve("intact")), 1000);
        damage(killed, 3);
        assertLost(killed, "3 of 1000");
    }

    /** Nothing but a checkpoint has written the rows: the snapshot after the first request counts them. */
    @Test
    void rowsOfACheckpoint() throws IOException, InterruptedException {
        Path file = directory.resolve("part.rows");
        String checksum;
        try (ServerDriver server = new ServerDriver(ServerDriver.config(directory.resolve("saved")), PLAN)) {
            server.join(0, 7, 0);
            push(server, 0, 1000);
            checksum = ((RowState.Saved) awaitEnd(server.core.save(1, file, 1))).checksum();
        }
        Path killed = directory.resolve("killed");
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live).journalBytes(Long.MAX_VALUE), PLAN)) {
            assertThat(awaitEnd(server.core.restore(2, List.of(new RowRequest.Source(file, checksum)))))
                    .isEqualTo(new RowState.Restored(1000, ""));
            server.join(0, 7, 0);
            ServerDriver.copy(live, killed);
        }
        assertRows(ServerDriver.copy(killed, directory.resolve("intact")), 1000);
        damage(killed, 3);
        assertLost(killed, "3 of 1000");
    }

    /** Only rows of a checkpoint need a snapshot. */
    @Test
    void aFreshRunWritesNoSnapshotAfterItsFirstRequest() throws IOException, InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live), PLAN)) {
            server.join(0, 7, 0);
            push(server, 0, 100);
            assertThat(Journal.first(Journal.files(live).getFirst())).isEqualTo(1);
        }
    }

    /** Runs a server until tables have rows, and ends it. */
    private void train(int rows) throws IOException, InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live), PLAN)) {
            server.join(0, 7, 0);
            push(server, 0, rows);
        }
    }

    private static RowState awaitEnd(RowTask task) throws InterruptedException {
        while (!task.state().isOver()) {
            Thread.sleep(1);
        }
        return task.state();
    }

    /** The name of the journal, which is empty, tells that a snapshot preceded it. */
    @Test
    void aLostSnapshot() throws IOException, InterruptedException {
        train(100);
        new ServerDriver(ServerDriver.config(live), PLAN).close();
        Files.delete(live.resolve("snapshot"));
        assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(live), PLAN)).isInstanceOf(ServerException.class)
                .hasMessageContaining("but record 1 is missing; put the file that contains it back, the snapshot or a "
                + "journal");
    }

    /** Clearing the tables would destroy what may be the only copy. */
    @Test
    void aLostSnapshotAndALostJournal() throws IOException, InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live), PLAN)) {
            server.join(0, 7, 0);
            push(server, 0, 100);
            Path replayed = ServerDriver.copy(live, directory.resolve("replayed"));
            Files.delete(replayed.resolve("snapshot"));
            assertRows(replayed, 100);
        }
        Path partial = ServerDriver.copy(live, directory.resolve("partial"));
        Files.delete(partial.resolve("snapshot"));
        Files.delete(Journal.files(partial).getFirst());
        for (int start = 0; start < 2; start++) {
            assertThatThrownBy(() -> new ServerDriver(ServerDriver.config(partial), PLAN))
                    .isInstanceOf(ServerException.class).hasMessageContaining("the parameter server in " + partial
                    + " cannot start: its tables have rows, but the files snapshot and journal-... are missing; put "
                    + "them back, or give the server an empty directory and resume from a checkpoint");
        }
        Files.copy(live.resolve("snapshot"), partial.resolve("snapshot"));
        assertRows(partial, 100);
    }

    /** What a crash tore in the map is in the journal, also if all of it was torn. */
    @Test
    void tornRows() throws IOException, InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(live), PLAN)) {
            server.join(0, 7, 0);
            push(server, 0, 1000);
            Path killed = ServerDriver.copy(live, directory.resolve("killed"));
            Files.delete(killed.resolve("table-0.rows"));
            assertRows(killed, 1000);
        }
    }

    /** A snapshot of an earlier release has no counts. */
    @Test
    void anEarlierSnapshot() throws IOException, InterruptedException {
        train(100);
        Path snapshot = live.resolve("snapshot");
        byte[] bytes = Files.readAllBytes(snapshot);
        byte[] plan = PLAN.encode();
        // The number of this format, the plan, the server, the sequence and hasRows precede the count.
        int count = 8 + 4 + plan.length + 4 + 8 + 4;
        byte[] old = new byte[bytes.length - 8];
        System.arraycopy(bytes, 0, old, 0, count);
        System.arraycopy(bytes, count + 8, old, count, bytes.length - count - 8);
        old[6] = '1';
        CRC32C crc = new CRC32C();
        crc.update(old, 0, old.length - 4);
        ByteBuffer.wrap(old).order(ByteOrder.LITTLE_ENDIAN).putInt(old.length - 4,
                (int) crc.getValue());
        Files.write(snapshot, old);
        assertRows(live, 100);
        Files.delete(live.resolve("table-0.rows"));
        assertLost(live, "100 of 100");
    }
}
