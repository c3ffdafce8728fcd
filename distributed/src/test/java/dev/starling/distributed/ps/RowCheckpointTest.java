package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Scope;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs with tables that end at a checkpoint and go on with other servers are as those that never ended. */
@Timeout(120)
class RowCheckpointTest {
    private static final int FIRST = 2;
    private static final int ALL = 4;
    private static final int WIDTH = 6;
    private static final Likes DATA = new Likes(150, 40, 60, 1);
    private static final long[] IDS = LongStream.concat(LongStream.range(0, DATA.users()),
            LongStream.range(0, DATA.items()).map(i -> i + Likes.ITEMS)).toArray();
    private static final Consistency TOGETHER = new Consistency.Synchronous();

    @TempDir
    Path directory;
    private Path checkpoints;
    private int runs;

    @BeforeEach
    void name() {
        checkpoints = directory.resolve("checkpoints");
    }

    /** What a run left: rows, dense weights, and the epochs that it took. */
    private record Run(float[] rows, Likes.Outcome outcome) { }

    private static Optimizer adam(Layer model) {
        return Adam.over(model).rate(Schedule.constant(0.02).warmUp(10)).build();
    }

    /** Trains with servers whose directories are empty. */
    private List<Run> train(int workers, int servers, Consistency consistency, ServerOptimizer rule, int epochs,
            Consumer<Trainer.Builder> more) {
        Path files = directory.resolve("servers-" + runs++);
        return Cluster.local(workers + servers).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, group.rank() - workers, ServerConfig.in(files));
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
            Likes.Outcome outcome = Likes.train(DATA, Likes.Model.of(rows, WIDTH, ids -> ids),
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

    private static void assertAlike(Run run, Run expected, float tolerance) {
        assertThat(run.outcome.history().last().step()).isEqualTo(expected.outcome.history().last().step());
        assertThat(run.rows).containsExactly(expected.rows, within(tolerance));
        for (int i = 0; i < expected.outcome.judge().size(); i++) {
            assertThat(run.outcome.judge().get(i)).containsExactly(expected.outcome.judge().get(i), within(tolerance));
        }
    }

    @ParameterizedTest
    @CsvSource({"2, 2", "2, 3", "3, 1", "1, 2", "2, 4"})
    void rowsAndSumsGoOnOnAnyNumberOfServersBitForBit(int servers, int serversNext) {
        for (ServerOptimizer rule : new ServerOptimizer[] {null, new ServerOptimizer.Adagrad(1e-8, 0)}) {
            checkpoints = directory.resolve("checkpoints-" + rule);
            Run whole = train(2, servers, TOGETHER, rule, ALL, b -> { }).getFirst();
            train(2, servers, TOGETHER, rule, FIRST, this::saving);
            for (Run each : train(2, serversNext, TOGETHER, rule, ALL, this::resuming)) {
                assertThat(each.outcome.history().epochs()).hasSize(ALL - FIRST);
                assertAlike(each, whole, 0);
            }
        }
    }

    @Test
    void onAnotherNumberOfWorkersOnlyRoundingDiffers() {
        Run whole = train(1, 1, TOGETHER, null, ALL, b -> { }).getFirst();
        train(3, 2, TOGETHER, null, FIRST, this::saving);
        assertAlike(train(2, 1, TOGETHER, null, ALL, this::resuming).getFirst(), whole, 5e-4f);
    }
}
