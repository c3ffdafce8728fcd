package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.ps.Corners.Outcome;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.Generator;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs that end at a checkpoint and go on in another cluster are as those that never ended. */
@Timeout(120)
class ResumeTest {
    private static final int FIRST = 4;
    private static final int ALL = 9;
    private static final Consistency TOGETHER = new Consistency.Synchronous();

    @TempDir
    Path directory;
    private Path checkpoints;

    @BeforeEach
    void name() {
        checkpoints = directory.resolve("checkpoints");
    }

    private static Optimizer momentum(Layer model) {
        return Sgd.over(model).rate(Schedule.constant(0.05).warmUp(60)).momentum(0.9).weightDecay(1e-3).build();
    }

    private static Optimizer adam(Layer model) {
        return Adam.over(model).rate(Schedule.constant(0.002).warmUp(60)).build();
    }

    private static List<Outcome> train(int workers, int servers, Consistency consistency, ServerConfig config,
            Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, int epochs,
            Consumer<Trainer.Builder> more) {
        return train(workers, servers, consistency, config, network, optimizer, null, epochs, more);
    }

    private static List<Outcome> train(int workers, int servers, Consistency consistency, ServerConfig config,
            Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, ServerOptimizer rule, int epochs,
            Consumer<Trainer.Builder> more) {
        return Cluster.local(workers + servers).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, group.rank() - workers, config);
                return null;
            }
            return Corners.train(network, optimizer, epochs, ParameterServer.worker(group, group.rank())
                    .workers(workers).servers(servers).consistency(consistency).optimizer(rule).build(), more);
        }).stream().filter(Objects::nonNull).toList();
    }

    private void saving(Trainer.Builder builder) {
        builder.checkpoints(checkpoints);
    }

    private void resuming(Trainer.Builder builder) {
        builder.checkpoints(checkpoints).resume();
    }

    private static void assertAlike(Outcome outcome, Outcome expected, float tolerance) {
        assertThat(outcome.history().last().step()).isEqualTo(expected.history().last().step());
        expected.weights().forEach((path, t) -> assertThat(outcome.weights().get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    @Test
    void inTheSameWorldEveryBitIsAsItWouldHaveBeen() {
        Function<Layer, Optimizer> optimizer = ResumeTest::adam;
        Outcome whole = train(2, 2, TOGETHER, ServerConfig.inMemory(), Corners::normed, optimizer, ALL, b -> { })
                .getFirst();
        train(2, 2, TOGETHER, ServerConfig.inMemory(), Corners::normed, optimizer, FIRST, this::saving);
        List<Outcome> resumed = train(2, 2, TOGETHER, ServerConfig.in(directory.resolve("servers")), Corners::normed,
                optimizer, ALL, this::resuming);
        for (Outcome each : resumed) {
            assertAlike(each, whole, 0);
        }
        // What the second cluster saved holds what its servers kept, too.
        Outcome more = train(2, 2, TOGETHER, ServerConfig.inMemory(), Corners::normed, optimizer, ALL + 2,
                this::resuming).getFirst();
        Outcome longer = train(2, 2, TOGETHER, ServerConfig.inMemory(), Corners::normed, optimizer, ALL + 2, b -> { })
                .getFirst();
        assertAlike(more, longer, 0);
    }

    @ParameterizedTest
    @CsvSource({"2, 1, 3, 2", "2, 2, 1, 1", "1, 1, 2, 3", "2, 1, 0, 0", "0, 0, 2, 2"})
    void inAnotherWorldOnlyRoundingDiffers(int workers, int servers, int workersNext, int serversNext) {
        Function<Layer, Optimizer> optimizer = ResumeTest::momentum;
        Outcome whole = Corners.train(Corners::perceptron, optimizer, ALL, new SingleProcess(), b -> { });
        run(workers, servers, optimizer, FIRST, this::saving);
        assertAlike(run(workersNext, serversNext, optimizer, ALL, this::resuming), whole, 5e-5f);
    }

    /** Runs on so many workers and servers, or alone if there are none. */
    private static Outcome run(int workers, int servers, Function<Layer, Optimizer> optimizer, int epochs,
            Consumer<Trainer.Builder> more) {
        return workers == 0 ? Corners.train(Corners::perceptron, optimizer, epochs, new SingleProcess(), more)
                : train(workers, servers, TOGETHER, ServerConfig.inMemory(), Corners::perceptron, optimizer, epochs,
                more).getLast();
    }

    @ParameterizedTest
    @CsvSource({"2, 2", "2, 1", "1, 3"})
    void whatARuleOfServersAloneHasLearnedGoesOn(int servers, int serversNext) {
        Outcome whole = adagrad(servers, ALL, b -> { });
        adagrad(servers, FIRST, this::saving);
        assertAlike(adagrad(serversNext, ALL, this::resuming), whole, 0);
        // Who has no use for it goes on, too.
        assertThat(Corners.train(Corners::perceptron, ResumeTest::plain, ALL + 1, new SingleProcess(), this::resuming)
                .history().epochs()).hasSize(1);
    }

    private static Outcome adagrad(int servers, int epochs, Consumer<Trainer.Builder> more) {
        return train(2, servers, TOGETHER, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::plain,
                new ServerOptimizer.Adagrad(1e-8, 0), epochs, more).getLast();
    }

    private static Optimizer plain(Layer model) {
        return Sgd.over(model).rate(0.02).build();
    }

    @Test
    void serversThatHoldSomethingElseAreNamed() {
        ServerConfig kept = ServerConfig.in(directory.resolve("servers"));
        Function<Layer, Optimizer> optimizer = ResumeTest::adam;
        assertThat(warnings(() -> train(1, 2, TOGETHER, kept, Corners::perceptron, optimizer, FIRST, this::saving)))
                .isEmpty();
        assertThat(warnings(() -> train(1, 2, TOGETHER, ServerConfig.inMemory(), Corners::perceptron, optimizer,
                FIRST + 1, this::resuming))).isEmpty();
        assertThat(warnings(() -> train(1, 2, TOGETHER, kept, Corners::perceptron, optimizer, FIRST + 2,
                this::resuming))).hasSize(2).allMatch(text -> text.contains("goes on with what its directory holds"));
    }

    /** Returns what worker 0 warns of. */
    private static List<String> warnings(Runnable action) {
        return Warnings.of(ParameterServer.class, action);
    }

    @Test
    void oneWorkerThatDoesNotWaitGoesOnAsItWouldHave() {
        Consistency alone = new Consistency.Asynchronous();
        Outcome whole = train(1, 2, alone, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::adam, ALL,
                b -> { }).getFirst();
        train(1, 2, alone, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::adam, FIRST, this::saving);
        assertAlike(train(1, 1, alone, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::adam, ALL,
                this::resuming).getFirst(), whole, 0);
    }

    @Test
    void workersThatDoNotWaitAllGoOnFromTheCheckpoint() {
        Consistency stale = new Consistency.Stale(2);
        train(2, 2, stale, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::adam, FIRST, this::saving);
        List<Outcome> all = train(2, 2, stale, ServerConfig.inMemory(), Corners::perceptron, ResumeTest::adam, ALL,
                this::resuming);
        for (Outcome each : all) {
            // History begins anew; nobody begins from the first epoch.
            assertThat(each.history().epochs()).hasSizeBetween(1, ALL - FIRST);
        }
        assertThat(all.getFirst().accuracy()).isGreaterThan(0.8);
    }
}
