package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.data.Share;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The trainer with strategies of several ranks, run by {@link TrainingThreads}. */
@Timeout(120)
class DistributedTrainerTest {
    private static final int EXAMPLES = 330;
    private static final int BATCH = 32;
    private static final int EPOCHS = 10;
    /** 10 full batches and one of 10 rows. */
    private static final int STEPS = 11 * EPOCHS;

    /** Points in four dimensions; the class is the quadrant of the first two. */
    private record Points(int size) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 4), Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) {
            float[] x = target.floats(0);
            long bits = (index + 1) * 0x9E3779B97F4A7C15L;
            for (int i = 0; i < 4; i++) {
                x[i] = (bits >>> i * 16 & 0xFFFF) / 32768f - 1;
            }
            target.put(0, x);
            target.put(1, (x[0] > 0 ? 1 : 0) + (x[1] > 0 ? 2 : 0));
        }
    }

    private record Outcome(Map<String, float[]> tensors, History history) { }

    private static Outcome train(DistributionStrategy strategy, int batch, double dropout,
            Consumer<Trainer.Builder> options) {
        Generator g = Generator.seeded(strategy.rank() + 5);
        try (Sequential net = Sequential.of(Linear.of(4, 16, g), new Relu(), new Dropout(dropout),
                Linear.of(16, 4, g));
                Optimizer sgd = Sgd.over(net).rate(0.1).momentum(0.9).build();
                DataLoader data = DataLoader.of(new Points(EXAMPLES)).batchSize(batch).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(new Points(100)).batchSize(50).build(); strategy) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), sgd).data(data).heldOut(test).epochs(EPOCHS)
                    .seed(9).metrics(Metric.accuracy()).strategy(strategy);
            options.accept(builder);
            History history = builder.build().run();
            Map<String, float[]> tensors = new LinkedHashMap<>();
            net.state().forEach((path, p) -> tensors.put(path, p.value().toFloats()));
            sgd.state().forEach((path, p) -> tensors.put("optimizer " + path, p.value().toFloats()));
            return new Outcome(tensors, history);
        }
    }

    private static Outcome single() {
        return train(new SingleProcess(), BATCH, 0, b -> { });
    }

    private static List<Outcome> together(TrainingThreads threads, double dropout,
            Consumer<Trainer.Builder> options) throws Exception {
        return threads.run(rank -> () -> train(threads.member(rank), BATCH, dropout, options));
    }

    private static void assertEqual(Outcome outcome, Outcome expected, float tolerance) {
        assertThat(outcome.tensors.keySet()).isEqualTo(expected.tensors.keySet());
        expected.tensors.forEach((path, t) -> assertThat(outcome.tensors.get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    private static void assertSameScores(Scores scores, Scores expected) {
        assertThat(scores.examples()).isEqualTo(expected.examples());
        assertThat(scores.loss()).isCloseTo(expected.loss(), within(1e-5));
        assertThat(scores.metric("accuracy")).isCloseTo(expected.metric("accuracy"), within(1e-9));
    }

    // ---- equal results ----

    @ParameterizedTest
    @ValueSource(strings = {"1", "1 1", "1 1 1", "1 1 1 1", "5 2 1", "0 3", "1 1 1 1 1 1 1 1 1 1 1 1"})
    void computesTheStepsOfASingleProcess(String weights) throws Exception {
        Outcome single = single();
        int[] units = Arrays.stream(weights.split(" ")).mapToInt(Integer::parseInt).toArray();
        List<Outcome> all = together(new TrainingThreads(units),
                0, b -> { });
        assertEqual(all.getFirst(), single, 2e-5f);
        for (Outcome each : all) {
            assertEqual(each, all.getFirst(), 0);
            assertThat(each.history.epochs()).hasSize(EPOCHS);
            assertThat(each.history.last().step()).isEqualTo(STEPS);
            for (int e = 0; e < EPOCHS; e++) {
                List<EpochReport> expected = single.history.epochs();
                assertSameScores(each.history.epochs().get(e).training(), expected.get(e).training());
                assertSameScores(each.history.epochs().get(e).heldOut().orElseThrow(),
                        expected.get(e).heldOut().orElseThrow());
            }
        }
        assertThat(single.history.last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.85);
    }

    @Test
    void leavesHeldOutDataWholeWhenAnEvaluationFails() {
        DistributionStrategy half = new SingleProcess() {
            @Override
            public Share share() {
                return Share.part(0, 2);
            }
        };
        Metric failing = Metric.of("fails", (result, target) -> {
            if (target.size(0) == 25) {
                throw new IllegalStateException("on held-out rows");
            }
            return 0;
        });
        try (Sequential net = Sequential.of(Linear.of(4, 4, Generator.seeded(1)));
                Optimizer sgd = Sgd.over(net).build();
                DataLoader data = DataLoader.of(new Points(32)).batchSize(8).build();
                DataLoader test = DataLoader.of(new Points(100)).batchSize(50).build()) {
            assertThatThrownBy(() -> Trainer.of(net, Loss.crossEntropy(), sgd).data(data).heldOut(test)
                    .metrics(failing).strategy(half).build().run()).isInstanceOf(IllegalStateException.class);
            assertThat(test.share()).isEqualTo(Share.whole());
        }
    }

    @Test
    void accumulatesBatchesToTheStepOfALargeBatch() throws Exception {
        Outcome large = single();
        Outcome accumulated = train(new SingleProcess(), BATCH / 4, 0, b -> b.accumulate(4));
        assertThat(accumulated.history.last().step()).isEqualTo(STEPS);
        assertEqual(accumulated, large, 2e-5f);
        assertSameScores(accumulated.history.last().training(), large.history.last().training());
        TrainingThreads threads = new TrainingThreads(2, 1);
        List<Outcome> both = threads.run(
                rank -> () -> train(threads.member(rank), BATCH / 4, 0, b -> b.accumulate(4)));
        assertEqual(both.get(0), large, 2e-5f);
        assertEqual(both.get(1), both.get(0), 0);
    }

    @Test
    void includesRanksWithoutRowsInTheStep() throws Exception {
        TrainingThreads threads = new TrainingThreads(0, 1);
        List<TrainingThreads.Member> members = List.of(threads.member(0), threads.member(1));
        threads.run(rank -> () -> train(members.get(rank), BATCH, 0, b -> b.epochs(1)));
        assertThat(members.get(0).batchSizes).containsOnly(0).hasSize(11);
        assertThat(members.get(1).batchSizes).startsWith(32, 32).endsWith(10).hasSize(11);
    }

    // ---- losing and restoring the state ----

    @Test
    void restoresARankThatMissedAStep() throws Exception {
        Outcome undisturbed = together(new TrainingThreads(1, 1), 0.2, b -> { }).getFirst();
        // In the middle of an epoch, at its last step, and at the last step of the run.
        for (long step : new long[] {0, 15, 10, STEPS - 1}) {
            TrainingThreads threads = new TrainingThreads(1, 1);
            threads.missedStep = step;
            for (Outcome each : together(threads, 0.2, b -> { })) {
                assertEqual(each, undisturbed, 0);
                assertThat(each.history.epochs()).extracting(EpochReport::epoch).startsWith(1, 2, 3).hasSize(EPOCHS)
                        .doesNotHaveDuplicates();
                assertThat(each.history.last().step()).isEqualTo(STEPS);
            }
        }
    }

    @Test
    void resumesFromACheckpointWithAnotherNumberOfRanks(@TempDir Path directory) throws Exception {
        Outcome single = single();
        TrainingListener stop = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == 38) {
                    progress.stop();
                }
            }
        };
        List<Outcome> first = together(new TrainingThreads(1, 1, 1), 0, b -> b.checkpoints(directory,
                10).listeners(stop));
        assertThat(first.getFirst().history.epochs()).hasSize(3);
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(38);
        List<Outcome> second = together(new TrainingThreads(1, 2), 0, b -> b.checkpoints(directory, 0).resume());
        assertEqual(second.get(1), second.get(0), 0);
        assertEqual(second.get(0), single, 2e-5f);
        // Three ranks and then two ranks trained the fourth epoch. Its report covers the whole epoch.
        EpochReport fourth = second.get(1).history.epochs().getFirst();
        assertThat(fourth.epoch()).isEqualTo(4);
        assertSameScores(fourth.training(), single.history.epochs().get(3).training());
    }

    @Test
    void stopsAllRanksIfOneStops() throws Exception {
        TrainingThreads threads = new TrainingThreads(1, 1, 1);
        List<Outcome> all = threads.run(rank -> () -> train(threads.member(rank), BATCH, 0, b -> b.listeners(
                new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        if (rank == 2 && progress.step() == 25) {
                            progress.stop();
                        }
                    }
                })));
        for (Outcome each : all) {
            assertThat(each.history.epochs()).hasSize(2);
            assertEqual(each, all.getFirst(), 0);
        }
    }

    @Test
    void takesNoStepIfOneRankEndsTheRunWhenItStarts() throws Exception {
        TrainingThreads threads = new TrainingThreads(1, 1);
        List<TrainingThreads.Member> members = List.of(threads.member(0), threads.member(1));
        List<Outcome> all = threads.run(rank -> () -> train(members.get(rank), BATCH, 0, b -> b.listeners(
                new TrainingListener() {
                    @Override
                    public void started(Progress progress) {
                        if (rank == 1) {
                            progress.stop();
                        }
                    }
                })));
        assertThat(all).allMatch(each -> each.history.epochs().isEmpty());
        assertThat(members).allMatch(each -> each.batchSizes.length == 0);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void comparesSettingsByTheSumsOfAStrategy(int other) throws Exception {
        TrainingThreads threads = new TrainingThreads(1, 1, 1);
        List<Throwable> failures = threads.run(rank -> () -> catchThrowable(() -> train(threads.member(rank), BATCH, 0,
                b -> b.epochs(rank == other ? 3 : 2))));
        assertThat(failures).allSatisfy(each -> assertThat(each).isInstanceOfSatisfying(SettingsMismatchException.class,
                e -> {
                    assertThat(e).hasMessageContaining(other == 0 ? "epochs is 3 on rank 0, 2 on ranks 1 and 2"
                            : "epochs is 2 on ranks 0 and 1, 3 on rank 2");
                    assertThat(e.rank()).isEqualTo(other);
                    assertThat(e.setting()).isEqualTo("epochs");
                }));
    }

    @Test
    void comparesNoIdentitiesOfFunctions() {
        Loss function = (x, target) -> x.sub(target).sum();
        RunSettings settings = new RunSettings(Map.of("list", List.of(function, new double[1]).toString(), "loss",
                "Sum[name=a, of=b.C$$Lambda/0x00007f@1b2c3d, rest=[D@12ab]"));
        assertThat(settings.values()).containsEntry("list", "[" + DistributedTrainerTest.class.getName() + ", [D]")
                .containsEntry("loss", "Sum[name=a, of=b.C, rest=[D]");
    }

    @Test
    void endsWithOneTypeOfExceptionWhateverTheReason() {
        TensorException reason = TensorException.argument("step", "it cannot be", "stop");
        DistributionStrategy failing = new SingleProcess() {
            @Override
            public int rank() {
                return 1;
            }

            @Override
            public int world() {
                return 2;
            }

            @Override
            public Share share() {
                return Share.shard(1, 2);
            }

            @Override
            public Step beforeStep(Tensor[] gradients) {
                throw reason;
            }
        };
        assertThatThrownBy(() -> train(failing, BATCH, 0, b -> { })).isInstanceOfSatisfying(RunEndedException.class,
                e -> assertThat(e.rank()).isEqualTo(1)).hasMessage("the run ended on rank 1: " + reason.getMessage())
                .hasCause(reason);
    }

    @Test
    void endsTheRunAndKeepsTheWeightsIfAStrategyFails() {
        List<String> events = new ArrayList<>();
        List<float[]> weights = new ArrayList<>();
        DistributionStrategy failing = new Failing(weights);
        assertThatThrownBy(() -> train(failing, BATCH, 0, b -> b.listeners(new TrainingListener() {
            @Override
            public void ended(Progress progress) {
                events.add("ended at " + progress.step());
            }
        }))).isInstanceOf(IllegalStateException.class).hasMessage("rank 3 was lost");
        assertThat(events).containsExactly("ended at 7");
        assertThat(weights.get(1)).isEqualTo(weights.get(0));
        assertThat(Thread.getAllStackTraces().keySet()).noneMatch(t -> t.getName().startsWith("starling-loader"));
    }

    /** Fails in its eighth step. */
    private static final class Failing extends SingleProcess {
        private final List<float[]> weights;
        private TrainingState state;

        Failing(List<float[]> weights) {
            this.weights = weights;
        }

        @Override
        public void start(TrainingState newState) {
            state = newState;
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            if (state.step() == 7) {
                throw new IllegalStateException("rank 3 was lost");
            }
            return Step.LOCAL;
        }

        @Override
        public void afterStep() {
            if (state.step() == 7) {
                weights.add(state.tensors().get("model.0.weight").value().toFloats());
            }
        }

        @Override
        public void close() {
            weights.add(state.tensors().get("model.0.weight").value().toFloats());
        }
    }

    /** Rank 1 of three that do not wait for each other. */
    private static final class Sharded implements DistributionStrategy, StreamsGradients, Collective {
        private final List<Integer> sizes = new ArrayList<>();

        @Override
        public int rank() {
            return 1;
        }

        @Override
        public int world() {
            return 3;
        }

        @Override
        public Share share() {
            return Share.shard(1, 3);
        }

        @Override
        public void start(TrainingState state) {
        }

        @Override
        public void beforeForward(Tensor input) {
            sizes.add((int) input.size(0));
        }

        @Override
        public void gradient(int index, Tensor gradient) {
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            return Step.LOCAL;
        }

        @Override
        public boolean stops(boolean requested) {
            return requested;
        }

        @Override
        public void sum(double[] values) {
            throw new AssertionError("ranks with shards do not wait for each other");
        }
    }

    @Test
    void trainsRanksWithShardsIndependently() {
        Sharded shard = new Sharded();
        Outcome outcome = train(shard, BATCH, 0, b -> b.epochs(2));
        assertThat(shard.sizes).containsExactly(32, 32, 32, 14, 32, 32, 32, 14);
        assertThat(outcome.history.last().training().examples()).isEqualTo(110);
        assertThat(outcome.history.last().heldOut()).isEmpty();
    }

    /** Restores the state after its third step, as a strategy that then learns of the loss of a rank does. */
    private static final class Restoring extends SingleProcess {
        private final List<String> calls = new ArrayList<>();
        private TrainingState state;
        private boolean restored;

        @Override
        public void start(TrainingState newState) {
            state = newState;
        }

        @Override
        public void afterStep() {
            calls.add("step " + state.step());
            if (state.step() == 3 && !restored) {
                restored = true;
                state.restore(state.notes());
            }
        }

        @Override
        public void settle() {
            calls.add("settle");
        }
    }

    /** Ranks that restored the state in another call of the same step do not settle, either. */
    @Test
    void doesNotSettleAStateThatWasRestored(@TempDir Path directory) {
        Restoring strategy = new Restoring();
        train(strategy, BATCH, 0, b -> b.checkpoints(directory, 1));
        assertThat(strategy.calls).startsWith("step 1", "settle", "step 2", "settle", "step 3", "step 4", "settle");
    }

    @Test
    void refusesRanksThatDivideBatchesButCannotAddUp() {
        DistributionStrategy incomplete = new SingleProcess() {
            @Override
            public int world() {
                return 2;
            }
        };
        assertThatThrownBy(() -> train(incomplete, BATCH, 0, b -> { })).isInstanceOf(TensorException.class)
                .hasMessageContaining("implement Collective");
    }
}
