package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.store.RowFile;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Part;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs with tables that resume from a checkpoint, on other servers, equal uninterrupted runs. */
@Timeout(120)
class RowCheckpointTest {
    private static final int FIRST = 2;
    private static final int ALL = 4;
    private static final int WIDTH = 6;
    private static final PreferencePairs DATA = new PreferencePairs(150, 40, 60, 1);
    private static final long[] IDS = LongStream.concat(LongStream.range(0, DATA.users()),
            LongStream.range(0, DATA.items()).map(i -> i + PreferencePairs.ITEMS)).toArray();
    private static final Consistency SYNCHRONOUS = new Consistency.Synchronous();

    @TempDir
    Path directory;
    private Path checkpoints;
    private Function<Path, ServerConfig> config = ServerConfig::in;
    private int runs;

    @BeforeEach
    void name() {
        checkpoints = directory.resolve("checkpoints");
    }

    /** The results of a run: rows, dense weights, and number of epochs. */
    private record Run(float[] rows, PreferencePairs.Outcome outcome) { }

    private static Optimizer adam(Layer model) {
        return Adam.over(model).rate(Schedule.constant(0.02).warmUp(10)).build();
    }

    /** Trains with servers whose directories are empty. */
    private List<Run> train(int workers, int servers, Consistency consistency, Rule rule, int epochs,
            Consumer<Trainer.Builder> more) {
        ServerConfig own = config.apply(directory.resolve("servers-" + runs++));
        return Cluster.local(workers + servers).servers(servers).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, own);
                return null;
            }
            EmbeddingTable rows = EmbeddingTable.of("rows", 10_000, WIDTH).scale(0.5).optimizer(rule).build();
            float[][] seen = new float[1][];
            TrainingListener listener = new TrainingListener() {
                @Override
                public void epochEnded(Progress progress, EpochReport report) {
                    try (Scope scope = Scope.open("test")) {
                        seen[0] = rows.pull(IDS).toFloats();
                    }
                }
            };
            PreferencePairs.Outcome outcome = PreferencePairs.train(DATA, PreferencePairs.Model.of(rows, WIDTH,
                    ids -> ids),
                    RowCheckpointTest::adam, epochs, ParameterServer.worker(group, group.rank()).workers(workers)
                            .servers(servers).consistency(consistency).build(), b -> {
                        b.listeners(listener);
                        more.accept(b);
                    });
            return new Run(seen[0], outcome);
        }).stream().filter(Objects::nonNull).toList();
    }

    private void saving(Trainer.Builder builder) {
        builder.checkpoints(checkpoints);
    }

    private void resuming(Trainer.Builder builder) {
        builder.checkpoints(checkpoints).resume();
    }

    private static void assertEquals(Run run, Run expected, float tolerance) {
        assertThat(run.outcome.history().last().step()).isEqualTo(expected.outcome.history().last().step());
        assertThat(run.rows).containsExactly(expected.rows, within(tolerance));
        for (int i = 0; i < expected.outcome.classifier().size(); i++) {
            assertThat(run.outcome.classifier().get(i)).containsExactly(expected.outcome.classifier().get(i),
                    within(tolerance));
        }
    }

    @ParameterizedTest
    @CsvSource({"2, 2, true", "2, 3, false", "3, 1, true", "1, 2, false", "2, 4, true"})
    void resumesRowsOnAnyNumberOfServersBitForBit(int servers, int serversNext, boolean adagrad) {
        Rule rule = adagrad ? new Rule.Adagrad(1e-8, 0, 0.5) : null;
        Run whole = train(2, servers, SYNCHRONOUS, rule, ALL, b -> { }).getFirst();
        train(2, servers, SYNCHRONOUS, rule, FIRST, this::saving);
        for (Run each : train(2, serversNext, SYNCHRONOUS, rule, ALL, this::resuming)) {
            assertThat(each.outcome.history().epochs()).hasSize(ALL - FIRST);
            assertEquals(each, whole, 0);
        }
    }

    @Test
    void resumesOnAnotherNumberOfWorkersUpToRounding() {
        Run whole = train(1, 1, SYNCHRONOUS, null, ALL, b -> { }).getFirst();
        train(3, 2, SYNCHRONOUS, null, FIRST, this::saving);
        assertEquals(train(2, 1, SYNCHRONOUS, null, ALL, this::resuming).getFirst(), whole, 5e-4f);
    }

    private List<Path> files(String end) throws IOException {
        try (Stream<Path> all = Files.list(checkpoints)) {
            return all.filter(path -> path.toString().endsWith(end)).sorted().toList();
        }
    }

    /** Each checkpoint is of one step, although training continued while it was written and caches were too small. */
    @Test
    void everyCheckpointOfARunLeadsToTheSameResult() throws IOException {
        config = files -> ServerConfig.in(files).cacheBytes(1);
        Run whole = train(2, 2, SYNCHRONOUS, null, ALL, b -> b.checkpoints(checkpoints, 1).keep(100)).getFirst();
        List<Path> manifests = files(".json");
        assertThat(manifests).hasSize(5 * ALL);
        assertThat(files(".rows")).hasSize(2 * 5 * ALL);
        for (int step = 5 * ALL - 1; step > 0; step--) {
            Files.delete(manifests.get(step));
            if (step % 6 == 1) {
                Path copy = copy("copy-" + step);
                assertEquals(train(2, 1 + step % 4, SYNCHRONOUS, null, ALL, b -> b.checkpoints(copy).resume())
                        .getFirst(),
                        whole, 0);
            }
        }
    }

    /** Copies the checkpoints, because a run that resumes from them saves its own. */
    private Path copy(String name) throws IOException {
        Path copy = Files.createDirectory(directory.resolve(name));
        for (Path each : files("")) {
            Files.copy(each, copy.resolve(each.getFileName()));
        }
        return copy;
    }

    @Test
    void deletesFilesWithTheirCheckpoint() throws IOException {
        train(1, 3, SYNCHRONOUS, null, FIRST, b -> b.checkpoints(checkpoints, 2).keep(2));
        assertThat(files(".json")).hasSize(2);
        // The last step is saved twice: at its interval and at the end.
        assertThat(files(".rows")).hasSize(2 * 3);
        assertThat(files("")).hasSize(2 * (2 + 3));
    }

    @Test
    void namesADamagedPartAndHarmsNoServer() throws IOException {
        Run whole = train(1, 2, SYNCHRONOUS, null, ALL, b -> { }).getFirst();
        train(1, 2, SYNCHRONOUS, null, FIRST, this::saving);
        List<Path> parts = files(".rows");
        assertThat(parts).hasSize(4);
        Path last = parts.getLast();
        byte[] bytes = Files.readAllBytes(last);
        byte[] flipped = bytes.clone();
        flipped[bytes.length - 20] ^= 1;
        Files.write(last, flipped);
        // One server reads both parts, of which the first is intact.
        Path servers = directory.resolve("kept");
        config = files -> ServerConfig.in(servers);
        assertRefused(last, "is damaged", "put an intact copy back");
        config = ServerConfig::in;
        Files.write(last, Files.readAllBytes(parts.get(1)));
        assertRefused(last, "belongs to another checkpoint", "put an intact copy back");
        Files.delete(last);
        assertRefused(last, "is missing", "delete the manifest");
        Files.write(last, bytes);
        // The server drops the rows of the first part; it has waited for another worker until now.
        Cluster.awaitEarlier();
        config = files -> ServerConfig.in(servers);
        assertEquals(train(1, 1, SYNCHRONOUS, null, ALL, this::resuming).getFirst(), whole, 0);
    }

    private void assertRefused(Path part, String... texts) {
        assertThatThrownBy(() -> train(1, 1, SYNCHRONOUS, null, ALL, this::resuming))
                .isInstanceOf(CheckpointException.class).hasMessageContaining(part.toString())
                .hasMessageContainingAll(texts);
    }

    /** A checkpoint of asynchronous workers contains rows of one moment, each with its number of steps. */
    @Test
    void checkpointsOfAsynchronousWorkersContainWholeRows() {
        int n = 2000;
        long[] ids = LongStream.range(0, n).toArray();
        Cluster.local(4).servers(2).run(group -> {
            if (group.rank() > 1) {
                ParameterServer.serve(group, ServerConfig.in(directory).cacheBytes(20_000));
                return null;
            }
            EmbeddingTable table = EmbeddingTable.of("rows", n, 3).build();
            try (Scope scope = Scope.open("test");
                    Optimizer sgd = Sgd.over(table).rate(1).build();
                    ParameterServer servers = ParameterServer.worker(group, group.rank()).workers(2).servers(2)
                            .build()) {
                servers.start(TrainingState.of(table, sgd));
                Tensor ones = Tensor.full(DType.F32, 1, n, 3);
                for (int step = 0; step < 30; step++) {
                    table.push(ids, ones);
                    servers.beforeStep(new Tensor[1]);
                    if (group.rank() == 0 && step % 5 == 4) {
                        Parts parts = servers.saveParts(checkpoints);
                        table.push(ids, ones);
                        servers.beforeStep(new Tensor[1]);
                        assertWhole(parts.await().orElseThrow(), n);
                    }
                }
                if (group.rank() == 0) {
                    assertThatThrownBy(() -> servers.saveParts(Path.of("/proc")).await())
                            .isInstanceOf(CheckpointException.class).hasMessageContaining("/proc/step-")
                            .hasMessageContaining("reported by server")
                            .hasMessageContaining("earlier checkpoints are intact");
                }
                servers.finish();
                return null;
            }
        });
    }

    /** Worker 0 sends nothing of the failed step any more, but learns that the server has written its rows. */
    @Test
    void completesACheckpointThatIsBeingWrittenWhenAStepFails() {
        int n = 20_000;
        long[] ids = LongStream.range(0, n).toArray();
        CountDownLatch failed = new CountDownLatch(1);
        Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                // Workers leave without a goodbye.
                assertThatThrownBy(() -> ParameterServer.serve(group, ServerConfig.in(directory.resolve("servers"))))
                        .isInstanceOf(DistributedException.class);
                return null;
            }
            EmbeddingTable table = EmbeddingTable.of("rows", 2 * n, 3).build();
            try (Scope scope = Scope.open("test");
                    Optimizer sgd = Sgd.over(table).rate(1).build();
                    ParameterServer servers = ParameterServer.worker(group, group.rank()).workers(2)
                            .consistency(SYNCHRONOUS).build()) {
                servers.start(TrainingState.of(table, sgd));
                table.push(ids, Tensor.full(DType.F32, 1, n, 3));
                servers.beforeStep(new Tensor[1]);
                if (group.rank() == 0) {
                    Parts parts = servers.saveParts(checkpoints);
                    // The server answers only when the other worker has sent its gradient, too.
                    servers.gradient(0, Tensor.full(DType.F32, 1, 1));
                    servers.onFailedStep();
                    assertThat(parts.await()).isPresent();
                    failed.countDown();
                }
                assertThat(failed.await(30, TimeUnit.SECONDS)).isTrue();
            }
            return null;
        });
    }

    private void assertWhole(List<Part> parts, int rows) throws IOException {
        int found = 0;
        float minSteps = Float.MAX_VALUE;
        float maxSteps = 0;
        for (Part part : parts) {
            try (RowFile in = new RowFile(checkpoints.resolve(part.file()))) {
                while (in.next()) {
                    float steps = in.row().getFloat(12);
                    for (int i = 0; i < 3; i++) {
                        assertThat(in.row().getFloat(4 * i)).isEqualTo(-steps);
                    }
                    minSteps = Math.min(minSteps, steps);
                    maxSteps = Math.max(maxSteps, steps);
                    found++;
                }
                in.verify(part.checksum());
            }
        }
        assertThat(found).isGreaterThanOrEqualTo(rows);
        assertThat(maxSteps).isBetween(5f, 66f);
        assertThat(minSteps).isGreaterThanOrEqualTo(5f);
    }
}
