package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tasks with rows: requests of workers meanwhile, repeated and superseded requests, and kills of the server. */
@Timeout(120)
class RowTasksTest {
    private static final int WIDTH = 30;
    private static final RowState UNKNOWN = new RowState.Unknown();
    private static final Plan PLAN = new Plan(1, 2, 64, new Consistency.Asynchronous(), List.of(),
            List.of(new Plan.Table("rows", WIDTH, 40_000, 0.5, ServerDriver.PLAIN)));

    @TempDir
    Path directory;
    private Path checkpoints;

    @BeforeEach
    void createDirectory() throws IOException {
        checkpoints = Files.createDirectory(directory.resolve("checkpoints"));
    }

    private static byte[] save(long id, Path file) {
        return RowRequest.CODEC.encode(new RowRequest(id, new RowRequest.Save(file, 3)));
    }

    private static byte[] restore(long id, Path file, String checksum) {
        RowRequest.Source part = new RowRequest.Source(file, checksum);
        return RowRequest.CODEC.encode(new RowRequest(id, new RowRequest.Restore(List.of(part))));
    }

    private static byte[] query(long id) {
        return RowRequest.CODEC.encode(new RowRequest(id, new RowRequest.Query()));
    }

    /** Repeats a request until its task has ended; returns the final state. */
    private static RowState finish(RowTasks tasks, ServerCore core, byte[] request) throws IOException,
            InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        do {
            assertThat(System.nanoTime()).isLessThan(end);
            tasks.onRequest(core, request);
            Thread.sleep(5);
        } while (!tasks.state().isOver());
        return tasks.state();
    }

    private Path part(int save) {
        return checkpoints.resolve("step-0000000003-%08x-0.rows".formatted(save));
    }

    private static float row(ServerDriver d, long key) throws InterruptedException {
        return d.request(d.request.pullRows(0, new long[] {key})).floats()[0];
    }

    /** Pushes a gradient of 1 to each of the first rows. */
    private static void push(ServerDriver d, int rows, long first) throws InterruptedException {
        float[] ones = new float[WIDTH];
        Arrays.fill(ones, 1);
        for (int key = 0; key < rows; key++) {
            d.request(d.request.pushRows(0, 7, first + key, 0, 1, 1, 1, 1, new long[] {key}, ones));
        }
    }

    @Test
    void restoredRowsSurviveAKillAndAreReadOnce() throws Exception {
        String checksum = write(50);
        float fresh;
        Path killed;
        Path live = directory.resolve("live");
        try (ServerDriver d = new ServerDriver(ServerDriver.config(live), PLAN)) {
            fresh = row(d, 5);
            assertThat(finish(new RowTasks(), d.core, restore(1, part(1), checksum)))
                    .isEqualTo(new RowState.Restored(50, ""));
            assertThat(row(d, 5)).isEqualTo(fresh - 1);
            killed = ServerDriver.copy(live, directory.resolve("killed"));
        }
        try (ServerDriver d = new ServerDriver(ServerDriver.config(killed), PLAN)) {
            assertThat(row(d, 5)).isEqualTo(fresh - 1);
            assertThat(d.core.holdsEarlier()).isTrue();
            // Worker 1 need not wait, because the rows are ready.
            d.join(1, 8, 0);
            d.join(0, 7, 0);
            push(d, 10, 0);
            assertThat(finish(new RowTasks(), d.core, restore(2, part(1), checksum)))
                    .isEqualTo(new RowState.Restored(0, ""));
            assertThat(row(d, 5)).isEqualTo(fresh - 2);
        }
    }

    @Test
    void rowsOfADamagedFileAreDropped() throws Exception {
        String checksum = write(50);
        byte[] bytes = Files.readAllBytes(part(1));
        bytes[bytes.length - 30] ^= 4;
        Files.write(part(1), bytes);
        Path live = directory.resolve("live");
        float fresh;
        try (ServerDriver d = new ServerDriver(ServerDriver.config(live), PLAN)) {
            fresh = row(d, 5);
            assertThat(finish(new RowTasks(), d.core, restore(1, part(1), checksum)))
                    .isInstanceOfSatisfying(RowState.Failed.class, failed -> {
                        assertThat(failed.file()).isEqualTo(part(1).toString());
                        assertThat(failed.problem()).startsWith("is damaged");
                    });
            assertThat(row(d, 5)).as("it has been read").isEqualTo(fresh - 1);
        }
        try (ServerDriver d = new ServerDriver(ServerDriver.config(live), PLAN)) {
            assertThat(d.core.holdsEarlier()).isFalse();
            assertThat(row(d, 5)).isEqualTo(fresh);
        }
    }

    private String write(int rows) throws IOException, InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerDriver.config(directory.resolve("first")), PLAN)) {
            d.join(0, 7, 0);
            push(d, rows, 0);
            return checksum(finish(new RowTasks(), d.core, save(1, part(1))));
        }
    }

    private static String checksum(RowState state) {
        assertThat(state).isInstanceOf(RowState.Saved.class);
        return ((RowState.Saved) state).checksum();
    }

    @Test
    void workersWaitForTheInitialRows() throws Exception {
        try (ServerDriver d = new ServerDriver(ServerDriver.config(directory.resolve("live")), PLAN)) {
            d.send(d.request.join(1, 8, 0));
            assertThat(d.replies.poll(200, TimeUnit.MILLISECONDS)).as("worker 0 may bring rows").isNull();
            List<Integer> answered = List.of(d.join(0, 7, 0).worker(), d.next().worker());
            assertThat(answered).containsExactlyInAnyOrder(0, 1);
        }
    }

    @Test
    void aNewTaskCancelsThePreviousOne() throws Exception {
        try (ServerDriver d = new ServerDriver(ServerDriver.config(directory.resolve("live")), PLAN)) {
            d.join(0, 7, 0);
            push(d, 4_000, 0);
            RowTasks tasks = new RowTasks();
            while (tasks.state().equals(UNKNOWN)) {
                tasks.onRequest(d.core, save(1, part(1)));
            }
            assertThat(finish(tasks, d.core, save(2, part(2)))).isInstanceOf(RowState.Saved.class);
            assertThat(tasks.pollReport().id()).isEqualTo(2);
            assertThat(tasks.pollReport()).as("a second report of the same state").isNull();
            assertThat(Files.size(part(2))).isGreaterThan(4_000 * 4 * WIDTH);
            // The state of the first task is no longer known.
            tasks.onRequest(d.core, query(1));
            assertThat(tasks.state()).isEqualTo(UNKNOWN);
            try (Stream<Path> files = Files.list(checkpoints)) {
                assertThat(files.map(Path::toString).filter(name -> name.endsWith(".tmp"))).isEmpty();
            }
        }
    }

    @Test
    void writesOnlyFilesNamedLikeParts() throws Exception {
        try (ServerDriver d = new ServerDriver(ServerDriver.config(directory.resolve("live")), PLAN)) {
            RowTasks tasks = new RowTasks();
            for (String name : List.of("notes.txt", "step-1-0123abcd.safetensors", "step-1-0123abcd-0.rows.tmp")) {
                tasks.onRequest(d.core, save(1, checkpoints.resolve(name)));
                assertThat(tasks.state()).isEqualTo(UNKNOWN);
            }
            d.join(0, 7, 0);
            assertThat(checkpoints).isEmptyDirectory();
        }
    }

    @Test
    void aServerWithoutThreadsSavesSynchronously() throws Exception {
        ServerConfig config = ServerDriver.config(directory.resolve("live")).ringSize(0);
        try (ServerDriver d = new ServerDriver(config, PLAN)) {
            d.join(0, 7, 0);
            push(d, 50, 0);
            RowTasks tasks = new RowTasks();
            tasks.onRequest(d.core, save(1, part(1)));
            String checksum = checksum(tasks.state());
            try (ServerDriver other = new ServerDriver(config.directory(directory.resolve("other")), PLAN)) {
                RowTasks reading = new RowTasks();
                reading.onRequest(other.core, restore(2, part(1), checksum));
                assertThat(reading.state()).isEqualTo(new RowState.Restored(50, ""));
                assertThat(row(other, 7)).isEqualTo(row(d, 7));
            }
        }
    }
}
