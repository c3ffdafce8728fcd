package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
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

/** What the trainer makes of a strategy, with {@link Crew}s. */
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
            Consumer<Trainer.Builder> more) {
        Generator g = Generator.seeded(strategy.rank() + 5);
        try (Sequential net = Sequential.of(Linear.of(4, 16, g), new Relu(), new Dropout(dropout),
                Linear.of(16, 4, g));
                Optimizer sgd = Sgd.over(net).rate(0.1).momentum(0.9).build();
                DataLoader data = DataLoader.of(new Points(EXAMPLES)).batchSize(batch).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(new Points(100)).batchSize(50).build(); strategy) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), sgd).data(data).heldOut(test).epochs(EPOCHS)
                    .seed(9).metrics(Metric.accuracy()).strategy(strategy);
            more.accept(builder);
            History history = builder.build().run();
            Map<String, float[]> tensors = new LinkedHashMap<>();
            net.state().forEach((path, p) -> tensors.put(path, p.value().toFloats()));
            sgd.state().forEach((path, p) -> tensors.put("optimizer " + path, p.value().toFloats()));
            return new Outcome(tensors, history);
        }
    }

    private static Outcome alone() {
        return train(new SingleProcess(), BATCH, 0, b -> { });
    }

    private static List<Outcome> together(Crew crew, double dropout, Consumer<Trainer.Builder> more) throws Exception {
        return crew.run(rank -> () -> train(crew.member(rank), BATCH, dropout, more));
    }

    private static void assertAlike(Outcome outcome, Outcome expected, float tolerance) {
        assertThat(outcome.tensors.keySet()).isEqualTo(expected.tensors.keySet());
        expected.tensors.forEach((path, t) -> assertThat(outcome.tensors.get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    private static void assertSameScores(Scores scores, Scores expected) {
        assertThat(scores.examples()).isEqualTo(expected.examples());
        assertThat(scores.loss()).isCloseTo(expected.loss(), within(1e-5));
        assertThat(scores.metric("accuracy")).isCloseTo(expected.metric("accuracy"), within(1e-9));
    }

    // ---- equivalence ----

    @ParameterizedTest
    @ValueSource(strings = {"1", "1 1", "1 1 1", "1 1 1 1", "5 2 1", "0 3", "1 1 1 1 1 1 1 1 1 1 1 1"})
    void ranksTakeTheStepsOfOneProcess(String weights) throws Exception {
        Outcome alone = alone();
        List<Outcome> all = together(new Crew(Arrays.stream(weights.split(" ")).mapToInt(Integer::parseInt).toArray()),
                0, b -> { });
        assertAlike(all.getFirst(), alone, 2e-5f);
        for (Outcome each : all) {
            assertAlike(each, all.getFirst(), 0);
            assertThat(each.history.epochs()).hasSize(EPOCHS);
            assertThat(each.history.last().step()).isEqualTo(STEPS);
            for (int e = 0; e < EPOCHS; e++) {
                assertSameScores(each.history.epochs().get(e).training(), alone.history.epochs().get(e).training());
                assertSameScores(each.history.epochs().get(e).heldOut(), alone.history.epochs().get(e).heldOut());
            }
        }
        assertThat(alone.history.last().heldOut().metric("accuracy")).isGreaterThan(0.85);
    }

    @Test
    void accumulatedBatchesAreALargeBatch() throws Exception {
        Outcome large = alone();
        Outcome accumulated = train(new SingleProcess(), BATCH / 4, 0, b -> b.accumulate(4));
        assertThat(accumulated.history.last().step()).isEqualTo(STEPS);
        assertAlike(accumulated, large, 2e-5f);
        assertSameScores(accumulated.history.last().training(), large.history.last().training());
        Crew crew = new Crew(2, 1);
        List<Outcome> both = crew.run(rank -> () -> train(crew.member(rank), BATCH / 4, 0, b -> b.accumulate(4)));
        assertAlike(both.get(0), large, 2e-5f);
        assertAlike(both.get(1), both.get(0), 0);
    }

    @Test
    void ranksWithoutRowsTakePartInTheStep() throws Exception {
        Crew crew = new Crew(0, 1);
        List<Crew.Member> members = List.of(crew.member(0), crew.member(1));
        crew.run(rank -> () -> train(members.get(rank), BATCH, 0, b -> b.epochs(1)));
        assertThat(members.get(0).seen).containsOnly(0).hasSize(11);
        assertThat(members.get(1).seen).startsWith(32, 32).endsWith(10).hasSize(11);
    }

    // ---- losing and taking up the state ----

    @Test
    void aRankThatMissedAStepTakesTheStateOfOneThatDidNot() throws Exception {
        Outcome undisturbed = together(new Crew(1, 1), 0.2, b -> { }).getFirst();
        // In the midst of an epoch, at its last step, at the very last.
        for (long step : new long[] {0, 15, 10, STEPS - 1}) {
            Crew crew = new Crew(1, 1);
            crew.missedStep = step;
            for (Outcome each : together(crew, 0.2, b -> { })) {
                assertAlike(each, undisturbed, 0);
                assertThat(each.history.epochs()).extracting(EpochReport::epoch).startsWith(0, 1, 2).hasSize(EPOCHS)
                        .doesNotHaveDuplicates();
                assertThat(each.history.last().step()).isEqualTo(STEPS);
            }
        }
    }

    @Test
    void aCheckpointGoesOnWithAnotherNumberOfRanks(@TempDir Path directory) throws Exception {
        Outcome alone = alone();
        TrainingListener stop = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == 38) {
                    progress.stop();
                }
            }
        };
        List<Outcome> first = together(new Crew(1, 1, 1), 0, b -> b.checkpoints(directory, 10).listeners(stop));
        assertThat(first.getFirst().history.epochs()).hasSize(3);
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(38);
        List<Outcome> second = together(new Crew(1, 2), 0, b -> b.checkpoints(directory, 0).resume());
        assertAlike(second.get(1), second.get(0), 0);
        assertAlike(second.get(0), alone, 2e-5f);
        // The fourth epoch was trained by three and then by two, and measured as a whole.
        EpochReport fourth = second.get(1).history.epochs().getFirst();
        assertThat(fourth.epoch()).isEqualTo(3);
        assertSameScores(fourth.training(), alone.history.epochs().get(3).training());
    }

    @Test
    void oneWhoStopsStopsAll() throws Exception {
        Crew crew = new Crew(1, 1, 1);
        List<Outcome> all = crew.run(rank -> () -> train(crew.member(rank), BATCH, 0, b -> b.listeners(
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
            assertAlike(each, all.getFirst(), 0);
        }
    }

    @Test
    void aStrategyThatFailsEndsTheRunAndLeavesTheWeights() {
        List<String> told = new ArrayList<>();
        List<float[]> weights = new ArrayList<>();
        DistributionStrategy failing = new Failing(weights);
        assertThatThrownBy(() -> train(failing, BATCH, 0, b -> b.listeners(new TrainingListener() {
            @Override
            public void ended(Progress progress) {
                told.add("ended at " + progress.step());
            }
        }))).isInstanceOf(IllegalStateException.class).hasMessage("rank 3 is gone");
        assertThat(told).containsExactly("ended at 7");
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
        public boolean beforeStep(Tensor[] gradients) {
            if (state.step() == 7) {
                throw new IllegalStateException("rank 3 is gone");
            }
            return true;
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

    @Test
    void ranksWithShardsGoTheirOwnWay() {
        List<Integer> sizes = new ArrayList<>();
        DistributionStrategy shard = new DistributionStrategy() {
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
            public boolean beforeStep(Tensor[] gradients) {
                return true;
            }

            @Override
            public void sum(double[] values) {
                throw new AssertionError("nobody waits for anybody");
            }

            @Override
            public void close() {
            }
        };
        Outcome outcome = train(shard, BATCH, 0, b -> b.epochs(2));
        assertThat(sizes).containsExactly(32, 32, 32, 14, 32, 32, 32, 14);
        assertThat(outcome.history.last().training().examples()).isEqualTo(110);
        assertThat(outcome.history.last().heldOut()).isNull();
    }
}
