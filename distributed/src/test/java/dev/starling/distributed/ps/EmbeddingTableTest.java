package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.server.ServerDriver;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Training with tables whose rows servers hold. */
@Timeout(120)
class EmbeddingTableTest {
    private static final int WIDTH = 6;
    private static final PreferencePairs FEW = new PreferencePairs(150, 40, 60, 1);
    private static final long[] IDS = LongStream.concat(LongStream.range(0, FEW.users()),
            LongStream.range(0, FEW.items()).map(i -> i + PreferencePairs.ITEMS)).toArray();

    @TempDir
    Path directory;

    /** A table at the start and the end of a run, and the run's results. */
    private record Run(float[] before, float[] after, PreferencePairs.Outcome outcome) { }

    private static EmbeddingTable table() {
        return EmbeddingTable.of("rows", 10_000, WIDTH).scale(0.5).build();
    }

    private List<Run> train(int workers, int servers, Consistency consistency, PreferencePairs data,
            Function<Layer, Optimizer> optimizer, int epochs, int accumulate) {
        return Cluster.local(workers + servers).servers(servers).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, ServerConfig.in(directory));
                return null;
            }
            EmbeddingTable rows = table();
            float[][] seen = new float[2][];
            TrainingListener listener = new TrainingListener() {
                @Override
                public void started(Progress progress) {
                    seen[0] = pull(rows);
                }

                @Override
                public void epochEnded(Progress progress, EpochReport report) {
                    seen[1] = pull(rows);
                }
            };
            PreferencePairs.Outcome outcome = PreferencePairs.train(data, PreferencePairs.Model.of(rows, WIDTH,
                    ids -> ids), optimizer, epochs,
                    ParameterServer.worker(group, group.rank()).workers(workers).servers(servers)
                            .consistency(consistency).build(), b -> b.listeners(listener).accumulate(accumulate));
            return new Run(seen[0], seen[1], outcome);
        }).stream().filter(Objects::nonNull).toList();
    }

    private static float[] pull(EmbeddingTable rows) {
        try (Scope scope = Scope.open("test")) {
            return rows.pull(IDS).toFloats();
        }
    }

    /** Returns the results of the same run with all rows in this process's memory. */
    private static Run trainAlone(float[] rows, Function<Layer, Optimizer> optimizer, int epochs, int accumulate) {
        try (Scope scope = Scope.open("test")) {
            Embedding local = Embedding.of(Parameter.of(Tensor.of(rows, IDS.length, WIDTH)));
            float[][] after = new float[1][];
            TrainingListener listener = new TrainingListener() {
                @Override
                public void epochEnded(Progress progress, EpochReport report) {
                    after[0] = local.weight().value().toFloats();
                }
            };
            PreferencePairs.Outcome outcome = PreferencePairs.train(FEW, PreferencePairs.Model.of(local, WIDTH,
                    EmbeddingTableTest::places),
                    optimizer, epochs, new SingleProcess(), b -> b.listeners(listener).accumulate(accumulate));
            return new Run(rows, after[0], outcome);
        }
    }

    private static Tensor places(Tensor ids) {
        long items = PreferencePairs.ITEMS;
        long[] places = LongStream.of(ids.toLongs()).map(id -> id < items ? id : id - items + FEW.users())
                .toArray();
        return Tensor.of(places, places.length).reshape(ids.shape().dims());
    }

    private static Optimizer plain(Layer model) {
        return Sgd.over(model).rate(Schedule.constant(0.5).warmUp(10)).build();
    }

    @ParameterizedTest
    @CsvSource({"1, 1, 1", "1, 2, 1", "2, 1, 1", "2, 2, 1", "3, 2, 2"})
    void trainsLikeALocalTable(int workers, int servers, int accumulate) {
        List<Run> runs = train(workers, servers, new Consistency.Synchronous(), FEW, EmbeddingTableTest::plain, 6,
                accumulate);
        Run first = runs.getFirst();
        Run alone = trainAlone(first.before, EmbeddingTableTest::plain, 6, accumulate);
        float tolerance = workers == 1 && accumulate == 1 ? 0 : 5e-5f;
        assertThat(first.after).containsExactly(alone.after, within(tolerance));
        for (Run run : runs) {
            assertThat(run.after).containsExactly(first.after);
            for (int i = 0; i < run.outcome.classifier().size(); i++) {
                assertThat(run.outcome.classifier().get(i)).containsExactly(alone.outcome.classifier().get(i),
                        within(tolerance));
            }
            assertThat(run.outcome.history().last().heldOut().orElseThrow().loss())
                    .isCloseTo(alone.outcome.history().last().heldOut().orElseThrow().loss(), within(1e-4));
        }
        assertThat(first.after).as("it learned").isNotEqualTo(first.before);
        for (float x : first.before) {
            assertThat(x).isBetween(-0.5f, 0.5f);
        }
    }

    /** If each batch has every row, an optimiser with state for each row computes the same as on dense parameters. */
    @Test
    void rowsHaveTheirOwnMoments() {
        PreferencePairs all = new PreferencePairs(96, 2, 2, 5);
        Function<Layer, Optimizer> adam = m -> Adam.over(m).rate(0.02).build();
        Run run = train(2, 2, new Consistency.Synchronous(), all, adam, 5, 1).getFirst();
        try (Scope scope = Scope.open("test")) {
            Embedding local = Embedding.of(Parameter.of(Tensor.of(run.before, IDS.length, WIDTH)));
            PreferencePairs.train(all, PreferencePairs.Model.of(local, WIDTH, EmbeddingTableTest::places), adam, 5,
                    new SingleProcess(),
                    b -> b.listeners(new TrainingListener() {
                        @Override
                        public void ended(Progress progress) {
                            assertThat(run.after).containsExactly(local.weight().value().toFloats(), within(5e-5f));
                        }
                    }));
        }
        assertThat(run.after).isNotEqualTo(run.before);
    }

    /** The optimiser has a group for the table's path in the model. */
    @Test
    void rowsHaveTheRateOfTheirGroup() {
        Function<Layer, Optimizer> grouped = m -> Sgd.over(m).rate(0.5).rate(path -> path.startsWith("rows"), 0.125)
                .build();
        Run run = train(1, 1, new Consistency.Synchronous(), FEW, grouped, 2, 1).getFirst();
        Run alone = trainAlone(run.before, grouped, 2, 1);
        assertThat(run.after).containsExactly(alone.after, within(5e-5f));
        assertThat(run.after).isNotEqualTo(run.before);
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 0, 3})
    void asynchronousWorkersLearnPreferences(int bound) {
        List<Run> runs = train(2, 2, bound < 0 ? new Consistency.Asynchronous() : new Consistency.Stale(bound),
                new PreferencePairs(4000, 40, 60, 1), m -> Adam.over(m).rate(0.02).build(), 6, 1);
        // A quarter of the pairs has the label 1.
        assertThat(runs.getFirst().outcome.history().last().heldOut().orElseThrow().metric("accuracy"))
                .isGreaterThan(0.93);
    }

    @Test
    void sendsManyRowsInManyMessages() {
        int n = 20_000;
        long[] ids = LongStream.range(0, n).map(i -> Plan.mix(i) >>> 1).toArray();
        for (Consistency consistency : List.of(new Consistency.Asynchronous(), new Consistency.Synchronous())) {
            Path files = directory.resolve(consistency.getClass().getSimpleName());
            List<float[]> rows = Cluster.local(4).servers(2).run(group -> {
                if (group.rank() > 1) {
                    ParameterServer.serve(group, ServerConfig.in(files));
                    return null;
                }
                EmbeddingTable many = EmbeddingTable.of("many", n, 20).build();
                return steps(many, ParameterServer.worker(group, group.rank()).workers(2).servers(2).tables(many)
                        .consistency(consistency).build(), 2, ids);
            });
            // Two workers took two steps each, of -1 times the position.
            float[] expected = new float[20 * n];
            for (int i = 0; i < expected.length; i++) {
                expected[i] = -4f * (i / 20 % 100 + 1);
            }
            assertThat(rows.get(0)).isEqualTo(expected);
            assertThat(rows.get(1)).isEqualTo(expected);
        }
    }

    /** Takes steps without a trainer; returns the rows when all of them have had the steps of both workers. */
    private static float[] steps(EmbeddingTable table, ParameterServer servers, int steps, long[] ids)
            throws InterruptedException {
        try (Scope scope = Scope.open("test");
                    Parameter p = Parameter.filled(0, 1);
                    Optimizer sgd = sgd(p);
                servers) {
            servers.start(TrainingState.of(layer(p), sgd));
            float[] g = new float[ids.length * table.width()];
            for (int i = 0; i < g.length; i++) {
                g[i] = i / table.width() % 100 + 1;
            }
            Tensor gradients = Tensor.of(g, ids.length, table.width());
            for (int step = 0; step < steps; step++) {
                table.push(ids, gradients);
                servers.beforeStep(new Tensor[1]);
            }
            float[] seen = table.pull(ids).toFloats();
            float[] all = Tensor.of(g, g.length).mul(-2 * steps).toFloats();
            for (int i = 0; i < 1000 && !Arrays.equals(seen, all); i++) {
                Thread.sleep(10);
                seen = table.pull(ids).toFloats();
            }
            servers.finish();
            return seen;
        }
    }

    /** Requests to servers that have ended would wait for their return. */
    @Test
    void isNotConnectedAfterTheEndOfTheRun() {
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() > 0) {
                ParameterServer.serve(group, ServerConfig.in(directory));
                return null;
            }
            EmbeddingTable rows = table();
            try (Parameter p = Parameter.filled(0, 1);
                    Optimizer sgd = sgd(p);
                    ParameterServer servers = ParameterServer.worker(group, 0).workers(1).servers(1).tables(rows)
                            .build()) {
                servers.start(TrainingState.of(layer(p), sgd));
                rows.pull(1).close();
                servers.finish();
                assertThatThrownBy(() -> rows.pull(1)).isInstanceOf(DistributedException.class)
                        .hasMessageContaining("the end of the run");
            }
            return null;
        });
    }

    private static Layer layer(Parameter p) {
        return new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return x;
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.parameter("p", p);
            }
        };
    }

    private static Optimizer sgd(Parameter p) {
        return Sgd.over(layer(p)).rate(1).build();
    }

    @Test
    void refusesInvalidArguments() {
        EmbeddingTable table = EmbeddingTable.of("items", 100, 3).build();
        EmbeddingTable wide = EmbeddingTable.of("wide", 100, 1000).build();
        assertThatThrownBy(() -> table.pull(1)).isInstanceOf(DistributedException.class)
                .hasMessageContaining("items").hasMessageContaining("not connected");
        assertThatThrownBy(() -> EmbeddingTable.of("items", 0, 3)).isInstanceOf(TensorException.class);
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                ParameterServer.serve(group, ServerConfig.in(directory));
                return null;
            }
            try (Scope scope = Scope.open("test");
                    Parameter p = Parameter.filled(0, 1);
                    Optimizer sgd = sgd(p);
                    ParameterServer servers = ParameterServer.worker(group, 0).tables(table, wide).build()) {
                servers.start(TrainingState.of(layer(p), sgd));
                assertThatThrownBy(() -> wide.pull(LongStream.range(0, 540_000).toArray()))
                        .isInstanceOf(TensorException.class).hasMessageContaining("wide")
                        .hasMessageContaining("less than 2 GiB, got 540000 rows of 1000 elements");
                assertThatThrownBy(() -> table.pull(4, -7)).isInstanceOf(TensorException.class)
                        .hasMessageContaining("items").hasMessageContaining("-7 at 1");
                assertThatThrownBy(() -> table.push(new long[]{1, 2}, Tensor.full(DType.F32, 1, 2, 4)))
                        .isInstanceOf(TensorException.class).hasMessageContaining("items")
                        .hasMessageContaining("[2, 3]");
                assertThatThrownBy(() -> table.forward(Tensor.full(DType.F32, 1, 2)))
                        .isInstanceOf(TensorException.class).hasMessageContaining("integers");
                assertThat(table.pull(9, 2, 9).toFloats()).containsOnly(0).hasSize(9);
                assertThat(table.pull().toFloats()).isEmpty();
                servers.finish();
            }
            return null;
        });
        assertThatThrownBy(() -> table.pull(1)).as("closed").isInstanceOf(DistributedException.class);
    }

    @Test
    void aFailedStepLeavesNoGradientsOfRowsToTheNextOne() {
        inOneWorker((table, servers, start) -> {
            Tensor ones = Tensor.full(DType.F32, 1, 1, 3);
            start.run();
            table.push(new long[]{5}, ones);
            servers.onFailedStep();
            table.push(new long[]{5}, ones);
            servers.beforeStep(new Tensor[1]);
            assertThat(table.pull(5).toFloats()).containsOnly(-1);
        });
    }

    /** If it went on, the server would take two steps along the gradients of one. */
    @Test
    void aFailedStepOfWhichServersHaveGradientsEndsTheRun() {
        inOneWorker((table, servers, start) -> {
            start.run();
            servers.gradient(0, Tensor.full(DType.F32, 1, 1));
            // Returns when the server has answered the gradient, too.
            table.pull(5);
            servers.onFailedStep();
            assertThatThrownBy(() -> servers.beforeStep(new Tensor[1])).isInstanceOf(DistributedException.class)
                    .hasMessageContaining("resume from a checkpoint");
            // Another run begins without a close.
            start.run();
            servers.beforeStep(new Tensor[1]);
            assertThat(table.pull(5).toFloats()).containsOnly(0);
        });
    }

    /** What one worker does with a table, its strategy, and what starts the strategy. */
    private interface Program {
        void run(EmbeddingTable table, ParameterServer servers, Runnable start);
    }

    private void inOneWorker(Program program) {
        EmbeddingTable table = EmbeddingTable.of("items", 100, 3).build();
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                ParameterServer.serve(group, ServerConfig.in(directory));
                return null;
            }
            try (Scope scope = Scope.open("test");
                    Parameter p = Parameter.filled(0, 1);
                    Optimizer sgd = sgd(p);
                    ParameterServer servers = ParameterServer.worker(group, 0).tables(table).build()) {
                program.run(table, servers, () -> servers.start(TrainingState.of(layer(p), sgd)));
                servers.finish();
            }
            return null;
        });
    }

    @ParameterizedTest
    @CsvSource({"items, 4, width=4", "others, 3, others", ", 3, other tables is"})
    void workersMustHaveTheSameTables(String name, int width, String message) {
        CountDownLatch first = new CountDownLatch(1);
        CountDownLatch second = new CountDownLatch(1);
        Cluster.local(3).servers(1).run(group -> {
            // Names of tables are settings, whose difference ends the run on all processes.
            boolean ends = !message.startsWith("width");
            if (group.rank() == 2) {
                ThrowingCallable serves = () -> ParameterServer.serve(group, ServerConfig.in(directory));
                if (ends) {
                    assertThatThrownBy(serves).isInstanceOf(SettingsMismatchException.class);
                } else {
                    assertThatCode(serves).doesNotThrowAnyException();
                }
                return null;
            }
            int rank = group.rank();
            EmbeddingTable[] tables = rank == 0 ? new EmbeddingTable[]{EmbeddingTable.of("items", 100, 3).build()}
                    : name == null ? new EmbeddingTable[0]
                    : new EmbeddingTable[]{EmbeddingTable.of(name, 100, width).build()};
            try (Scope scope = Scope.open("test");
                    Parameter p = Parameter.filled(0, 1);
                    Optimizer sgd = sgd(p);
                    ParameterServer servers = ParameterServer.worker(group, rank).workers(2).tables(tables).build()) {
                if (rank == 0) {
                    servers.start(TrainingState.of(layer(p), sgd));
                    first.countDown();
                    assertThat(second.await(20, TimeUnit.SECONDS)).isTrue();
                    if (ends) {
                        assertThatThrownBy(servers::finish).isInstanceOf(SettingsMismatchException.class)
                                .hasMessageContaining(message);
                    } else {
                        servers.finish();
                    }
                } else {
                    assertThat(first.await(20, TimeUnit.SECONDS)).isTrue();
                    assertThatThrownBy(() -> servers.start(TrainingState.of(layer(p), sgd)))
                            .isInstanceOf(RunEndedException.class).hasMessageContaining("worker 1")
                            .hasMessageContaining(message);
                    second.countDown();
                }
                return null;
            }
        });
    }

    @Test
    void aBuilderDoesNotAffectWhatItHasBuilt() {
        Rule adagrad = new Rule.Adagrad(1e-10, 0, 0);
        EmbeddingTable.Builder builder = EmbeddingTable.of("rows", 100, 3).scale(0.5);
        EmbeddingTable built = builder.build();
        builder.scale(0.1).optimizer(adagrad);
        assertThat(built.plan(1, () -> ServerDriver.PLAIN)).isEqualTo(new Plan.Table("rows", 3, 100, 0.5,
                ServerDriver.PLAIN));
        assertThat(builder.build().plan(1, () -> ServerDriver.PLAIN).rule()).isEqualTo(adagrad);
    }

    @Test
    void tablesNeedADirectoryAndUniqueNames() {
        assertThatThrownBy(() -> Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return steps(table(), ParameterServer.worker(group, 0).tables(table()).build(), 1, new long[]{1});
        })).hasMessageContaining("directory");
        assertThatThrownBy(() -> Cluster.local(1).run(group -> steps(table(), ParameterServer.worker(group, 0)
                .tables(table(), table()).build(), 1, new long[]{1}))).isInstanceOf(TensorException.class)
                .hasMessageContaining("two tables have the name rows");
    }
}
