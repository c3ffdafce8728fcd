package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Json;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelFile;
import dev.starling.nn.model.ModelMetadata;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Listeners that end a run, save models and write logs, with a metric whose value in each epoch is prescribed. */
@Timeout(120)
class CallbacksTest {
    private static final String SCORE = "score, prescribed";
    /** The best epoch is the second; three worse ones follow. */
    private static final double[] SCORES = {1, 3, 2, 2.5, 2.9, 4, 5};

    @TempDir
    Path directory;

    private record Outcome(Map<String, float[]> weights, List<Map<String, float[]>> byEpoch, History history) { }

    private static Map<String, float[]> weights(Layer model) {
        Map<String, float[]> weights = new LinkedHashMap<>();
        model.state().forEach((path, p) -> weights.put(path, p.master().to(DType.F32).toFloats()));
        return weights;
    }

    private static Sequential model(long seed) {
        Generator g = Generator.seeded(seed);
        return Sequential.of(Linear.of(3, 4, g), BatchNorm.of(4), Linear.of(4, 2, g));
    }

    private static Outcome train(Sequential model, DistributionStrategy strategy, int epochs,
            Consumer<Trainer.Builder> options) {
        Generator g = Generator.seeded(1);
        Tensor x = g.normal(24, 3);
        Tensor y = g.integers(0, 2, 24);
        int[] epoch = {0};
        List<Map<String, float[]>> byEpoch = new ArrayList<>();
        try (model; Optimizer sgd = Sgd.over(model).rate(0.1).momentum(0.9).build(); strategy;
                DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(8).shuffle().build();
                DataLoader heldOut = DataLoader.of(TensorDataset.of(x, y)).batchSize(24).build()) {
            Trainer.Builder builder = Trainer.of(model, Loss.crossEntropy(), sgd).data(data).heldOut(heldOut)
                    .epochs(epochs).strategy(strategy)
                    .metrics(Metric.of(SCORE, (result, target) -> SCORES[epoch[0]] * target.size(0)))
                    .listeners(new TrainingListener() {
                        @Override
                        public void epochStarted(Progress progress) {
                            epoch[0] = progress.epoch() - 1;
                        }

                        @Override
                        public void epochEnded(Progress progress, EpochReport report) {
                            byEpoch.add(weights(model));
                        }
                    });
            options.accept(builder);
            History history = builder.build().run();
            return new Outcome(weights(model), byEpoch, history);
        }
    }

    private static void assertEqual(Map<String, float[]> weights, Map<String, float[]> expected) {
        assertThat(weights.keySet()).isEqualTo(expected.keySet());
        expected.forEach((path, w) -> assertThat(weights.get(path)).as(path).isEqualTo(w));
    }

    static Stream<TrainingListener> comparesByAMetric() {
        return Stream.of(EarlyStopping.patience(1).growing("acuracy"),
                BestModel.of(model(5), Path.of("unused")).shrinking("acuracy"), Plateau.of(0.1).growing("acuracy"));
    }

    @ParameterizedTest
    @MethodSource("comparesByAMetric")
    void refusesAMetricThatTheRunDoesNotHaveBeforeTheFirstStep(TrainingListener listener) {
        List<Long> steps = new ArrayList<>();
        assertThatThrownBy(() -> train(model(5), new SingleProcess(), 1, b -> b.listeners(listener,
                new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        steps.add(progress.step());
                    }
                }))).isInstanceOf(TensorException.class).hasMessageContaining("by the metric acuracy")
                .hasMessageContaining("[" + SCORE + "]");
        assertThat(steps).isEmpty();
    }

    // ---- early stopping ----

    @Test
    void endsTheRunWhenPatienceIsOverAndRestoresTheBestWeights() {
        Sequential model = model(5);
        EarlyStopping stopping = EarlyStopping.patience(3).growing(SCORE).restoreBest(model);
        Outcome outcome = train(model, new SingleProcess(), 7, b -> b.listeners(stopping));
        assertThat(outcome.history.epochs()).hasSize(5);
        assertThat(stopping.bestEpoch()).isEqualTo(2);
        assertThat(stopping.best()).isEqualTo(3);
        assertEqual(outcome.weights, outcome.byEpoch.get(1));
        assertThat(outcome.weights.get("0.weight")).isNotEqualTo(outcome.byEpoch.get(4).get("0.weight"));
        assertThat(outcome.weights.get("1.running_mean")).isNotEqualTo(outcome.byEpoch.get(4).get("1.running_mean"));
    }

    @Test
    void restoresTheBestWeightsAfterTheLastEpochToo() {
        Sequential model = model(5);
        EarlyStopping stopping = EarlyStopping.patience(9).growing(SCORE).restoreBest(model);
        Outcome outcome = train(model, new SingleProcess(), 4, b -> b.listeners(stopping));
        assertThat(outcome.history.epochs()).hasSize(4);
        assertEqual(outcome.weights, outcome.byEpoch.get(1));
    }

    @Test
    void restoresTheBestWeightsOfARunThatHasMoreEpochsThanItResumesFor() {
        List<Outcome> outcomes = new ArrayList<>();
        for (int epochs : new int[] {4, 3}) {
            Sequential model = model(epochs);
            outcomes.add(train(model, new SingleProcess(), epochs, b -> b.checkpoints(directory).resume()
                    .listeners(EarlyStopping.patience(9).growing(SCORE).restoreBest(model))));
        }
        assertThat(outcomes.getLast().history.epochs()).isEmpty();
        assertEqual(outcomes.getLast().weights, outcomes.getFirst().byEpoch.get(1));
    }

    /** The only checkpoint is that of the end of the run. */
    @Test
    void leavesTheLastWeightsOfARunThatFailsAtItsEnd() {
        Sequential model = model(5);
        Map<String, float[]> last = new LinkedHashMap<>();
        Map<String, float[]> atEnd = new LinkedHashMap<>();
        TrainingListener failing = new TrainingListener() {
            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                last.putAll(weights(model));
            }

            @Override
            public void checkpointSaved(Progress progress, Path manifest) {
                throw new IllegalStateException("the copy has failed");
            }

            @Override
            public void ended(Progress progress) {
                atEnd.putAll(weights(model));
            }
        };
        assertThatThrownBy(() -> train(model, new SingleProcess(), 4, b -> b.checkpoints(directory, 1000).listeners(
                EarlyStopping.patience(9).growing(SCORE).restoreBest(model), failing)))
                .isInstanceOf(IllegalStateException.class);
        assertEqual(atEnd, last);
    }

    /** A buffer whose size follows the data, as that of a vocabulary. */
    private record Words(Parameter words) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return x;
        }
    }

    @Test
    void restoresBuffersThatWereResizedAfterItWasMade() {
        Words words = new Words(Parameter.resizable(Tensor.of(new long[0])));
        Sequential model = Sequential.of(words, Linear.of(3, 2, Generator.seeded(5)));
        EarlyStopping stopping = EarlyStopping.patience(3).growing(SCORE).restoreBest(model);
        words.words.set(Tensor.of(new long[] {7, 8, 9}));
        Outcome outcome = train(model, new SingleProcess(), 7, b -> b.listeners(stopping));
        assertEqual(outcome.weights, outcome.byEpoch.get(1));
        assertThat(outcome.weights.get("0.words")).containsExactly(7, 8, 9);
    }

    @Test
    void leavesTheLastWeightsIfNotAskedToRestore() {
        Outcome outcome = train(model(5), new SingleProcess(), 7, b -> b.listeners(EarlyStopping.patience(1)
                .growing(SCORE)));
        assertThat(outcome.history.epochs()).hasSize(3);
        assertEqual(outcome.weights, outcome.byEpoch.get(2));
    }

    @Test
    void countsImprovementsOfMoreThanTheMinimum() {
        assertThat(train(model(5), new SingleProcess(), 7, b -> b.listeners(EarlyStopping.patience(4)
                .growing(SCORE).minDelta(1.5))).history.epochs()).hasSize(6);
        assertThat(train(model(5), new SingleProcess(), 7, b -> b.listeners(EarlyStopping.patience(3)
                .shrinking(SCORE))).history.epochs()).hasSize(4);
    }

    @Test
    void isAsIfNotInterruptedWhenTheRunResumes() {
        Sequential whole = model(5);
        Outcome expected = train(whole, new SingleProcess(), 7, b -> b.listeners(EarlyStopping.patience(3)
                .growing(SCORE).restoreBest(whole)));
        train(model(5), new SingleProcess(), 3, b -> b.checkpoints(directory));
        Outcome fresh = train(model(6), new SingleProcess(), 7, b -> b.checkpoints(directory).resume()
                .listeners(EarlyStopping.patience(2).growing(SCORE)));
        assertThat(fresh.history.epochs()).as("a listener that the saved run had not").hasSize(4);

        Path kept = directory.resolve("kept");
        Sequential first = model(5);
        train(first, new SingleProcess(), 3, b -> b.checkpoints(kept).listeners(EarlyStopping.patience(3)
                .growing(SCORE).restoreBest(first)));
        Sequential second = model(6);
        EarlyStopping stopping = EarlyStopping.patience(3).growing(SCORE).restoreBest(second);
        Outcome resumed = train(second, new SingleProcess(), 7, b -> b.checkpoints(kept).resume().listeners(stopping));
        assertThat(resumed.history.epochs()).hasSize(2);
        assertThat(stopping.bestEpoch()).isEqualTo(2);
        assertEqual(resumed.weights, expected.weights);

        Outcome without = train(model(6), new SingleProcess(), 7, b -> b.checkpoints(kept).resume());
        assertThat(without.history.epochs()).as("a listener that the resumed run has not").hasSize(2);
    }

    @Test
    void endsARunThatItHasEndedAtOnceWhenTheRunResumes() {
        List<Outcome> outcomes = new ArrayList<>();
        for (int seed = 5; seed < 7; seed++) {
            Sequential model = model(seed);
            outcomes.add(train(model, new SingleProcess(), 7, b -> b.checkpoints(directory).resume()
                    .listeners(EarlyStopping.patience(3).growing(SCORE).restoreBest(model))));
        }
        assertThat(outcomes.getFirst().history.epochs()).hasSize(5);
        assertThat(outcomes.getLast().history.epochs()).isEmpty();
        assertEqual(outcomes.getLast().weights, outcomes.getFirst().weights);
    }

    @Test
    void restoresEqualWeightsOnAllRanks() throws Exception {
        TrainingThreads threads = new TrainingThreads(3, 5);
        List<Outcome> outcomes = threads.run(rank -> () -> {
            Generator g = Generator.seeded(rank);
            // These ranks do not average running statistics.
            Sequential model = Sequential.of(Linear.of(3, 4, g), Linear.of(4, 2, g));
            return train(model, threads.member(rank), 7, b -> b.listeners(
                    EarlyStopping.patience(3).growing(SCORE).restoreBest(model),
                    BestModel.of(model, directory.resolve(rank + ".safetensors")).growing(SCORE),
                    TrainingLog.csv(directory.resolve(rank + ".csv"))));
        });
        for (Outcome outcome : outcomes) {
            assertThat(outcome.history.epochs()).hasSize(5);
            assertEqual(outcome.weights, outcomes.getFirst().byEpoch.get(1));
        }
        assertThat(directory.resolve("0.safetensors")).exists();
        assertThat(directory.resolve("0.csv")).exists();
        assertThat(directory.resolve("1.safetensors")).doesNotExist();
        assertThat(directory.resolve("1.csv")).doesNotExist();
    }

    /** Ranks that share batches transfer the tensors of listeners, and therefore must have the same. */
    @Test
    void isASettingThatRanksMustHaveInCommonIfItKeepsWeights() {
        Tensor x = Tensor.zeros(8, 3);
        try (Sequential model = model(1); Optimizer sgd = Sgd.over(model).build();
                DataLoader data = DataLoader.of(TensorDataset.of(x, x)).batchSize(8).build()) {
            Map<String, EarlyStopping> listeners = Map.of("keeps", EarlyStopping.patience(3).restoreBest(model),
                    "keeps none", EarlyStopping.patience(3));
            listeners.forEach((name, listener) -> assertThat(CommonSettings.of(Trainer.of(model, Loss.meanSquared(),
                    sgd).listeners(listener), data).values().containsKey("listeners that keep weights")).as(name)
                    .isEqualTo(name.equals("keeps")));
        }
    }

    // ---- the rate on a plateau ----

    @Test
    void resumesTheRateOfAPlateau() {
        List<Double> rates = new ArrayList<>();
        for (int[] run : new int[][] {{6, 0}, {4, 1}, {6, 1}}) {
            Plateau plateau = Plateau.of(0.1).factor(0.5).patience(0).growing(SCORE);
            train(model(5), new SingleProcess(), run[0], b -> {
                b.listeners(plateau);
                if (run[1] == 1) {
                    b.checkpoints(directory).resume();
                }
            });
            rates.add(plateau.rate(0));
        }
        assertThat(rates).containsExactly(0.0125, 0.025, 0.0125);
    }

    @Test
    void reducesTheRateIfAMetricStopsShrinking() {
        Plateau plateau = Plateau.of(0.1).factor(0.5).patience(0).shrinking(SCORE);
        train(model(5), new SingleProcess(), 3, b -> b.listeners(plateau));
        assertThat(plateau.rate(0)).isEqualTo(0.025);
    }

    /** A share of an infinite loss is infinite too, and no loss is smaller by that. */
    @Test
    void takesAFiniteLossForBetterThanAnInfiniteOne() {
        Plateau plateau = Plateau.of(0.1).factor(0.5).patience(0);
        Progress progress = new Progress(4, new Averages(List.of()));
        for (double loss : new double[] {Double.POSITIVE_INFINITY, 5, 4, 3}) {
            plateau.epochEnded(progress, progress.report(Scores.of(List.of(), loss, new double[0], 1), null));
        }
        assertThat(plateau.rate(0)).isEqualTo(0.1);
    }

    // ---- files ----

    @Test
    void savesTheBestModelOnly() {
        Path file = directory.resolve("new/best.safetensors");
        Sequential model = model(5);
        BestModel best = BestModel.of(model, file).growing(SCORE).metadata(ModelMetadata.none().classes("a", "b"));
        Outcome outcome = train(model, new SingleProcess(), 5, b -> b.listeners(best).checkpoints(directory));
        try (Sequential saved = model(6)) {
            ModelMetadata metadata = saved.load(file);
            assertEqual(weights(saved), outcome.byEpoch.get(1));
            assertThat(metadata.classes()).containsExactly("a", "b");
            assertThat(metadata.metrics()).containsEntry(SCORE, 3.0).containsEntry("loss",
                    outcome.history.epochs().get(1).heldOut().orElseThrow().loss());
            assertThat(metadata.notes()).containsEntry("epoch", "2");
        }
        Sequential again = model(6);
        train(again, new SingleProcess(), 7, b -> b.checkpoints(directory).resume()
                .listeners(BestModel.of(again, file).growing(SCORE)));
        assertThat(ModelFile.metadata(file).notes()).containsEntry("epoch", "7");
    }

    @Test
    void logsEachEpochAsALine() throws IOException {
        Path csv = directory.resolve("new/log.csv");
        Path json = directory.resolve("log.jsonl");
        Outcome outcome = train(model(5), new SingleProcess(), 2, b -> b.listeners(TrainingLog.csv(csv)
                .column("answer", () -> 42), TrainingLog.jsonLines(json).column("none", () -> Double.NaN)));
        EpochReport first = outcome.history.epochs().getFirst();
        assertThat(Files.readAllLines(csv)).hasSize(3).startsWith(
                "epoch,step,seconds,items_per_second,loss,\"score, prescribed\",held_out_loss,"
                + "\"held_out_score, prescribed\",answer",
                "1,3," + first.seconds() + "," + first.itemsPerSecond() + "," + first.training().loss() + ",1.0,"
                + first.heldOut().orElseThrow().loss() + ",1.0,42.0");
        List<String> lines = Files.readAllLines(json);
        assertThat(lines).hasSize(2);
        assertThat(lines.get(1)).startsWith("{\"epoch\":2,\"step\":6,\"seconds\":").endsWith("\"held_out_score, "
                + "prescribed\":3.0,\"none\":null}");
        assertThat(Json.object(lines.get(1).replaceAll("-?\\d+\\.\\d+(E-?\\d+)?|null", "0"))).hasSize(9);
    }

    @Test
    void keepsTheLinesOfEpochsBeforeItsOwnWhenTheRunResumes() throws IOException {
        Path csv = directory.resolve("log.csv");
        for (int epochs : new int[] {2, 5}) {
            train(model(5), new SingleProcess(), epochs, b -> b.checkpoints(directory).resume()
                    .listeners(TrainingLog.csv(csv)));
        }
        assertThat(Files.readAllLines(csv).stream().map(line -> line.split(",")[0]))
                .containsExactly("epoch", "1", "2", "3", "4", "5");
        train(model(5), new SingleProcess(), 1, b -> b.listeners(TrainingLog.csv(csv)));
        assertThat(Files.readAllLines(csv)).hasSize(2);
    }

    /** Until its new lines are written, the file stays as it is. */
    @Test
    void replacesTheLogOfARunThatResumesAsAWhole() throws IOException {
        Path csv = directory.resolve("log.csv");
        train(model(5), new SingleProcess(), 2, b -> b.checkpoints(directory).listeners(TrainingLog.csv(csv)));
        Path before = Files.createLink(directory.resolve("before.csv"), csv);
        List<String> lines = Files.readAllLines(before);
        train(model(5), new SingleProcess(), 3, b -> b.checkpoints(directory).resume()
                .listeners(TrainingLog.csv(csv)));
        assertThat(Files.readAllLines(before)).isEqualTo(lines);
        assertThat(Files.readAllLines(csv)).hasSize(4).startsWith(lines.toArray(String[]::new));
        assertThat(directory.toFile().list()).noneMatch(name -> name.endsWith(".tmp"));
    }

    @Test
    void dropsALineThatAFullDiskCutOffWhenTheRunResumes() throws IOException {
        for (boolean csv : new boolean[] {true, false}) {
            Path file = directory.resolve(csv ? "log.csv" : "log.jsonl");
            Path checkpoints = directory.resolve("of " + csv);
            Supplier<TrainingLog> log = () -> csv ? TrainingLog.csv(file) : TrainingLog.jsonLines(file);
            train(model(5), new SingleProcess(), 2, b -> b.checkpoints(checkpoints).listeners(log.get()));
            Files.writeString(file, csv ? "3" : "{\"ep", StandardOpenOption.APPEND);
            train(model(5), new SingleProcess(), 4, b -> b.checkpoints(checkpoints).resume().listeners(log.get()));
            assertThat(Files.readAllLines(file).stream().map(line -> line.split(csv ? "," : ",\"step")[0]))
                    .endsWith(csv ? new String[] {"epoch", "1", "2", "3", "4"} : new String[] {"{\"epoch\":1",
                        "{\"epoch\":2", "{\"epoch\":3", "{\"epoch\":4"}).hasSize(csv ? 5 : 4);
        }
    }

    /** As a driver of Spark observes it: the first numbers of a run that resumes are of a later epoch. */
    @Test
    void keepsTheLinesOfEarlierEpochsWhenARunInAnotherProcessResumes() throws IOException {
        Path csv = directory.resolve("log.csv");
        List<EpochReport> reports = train(model(5), new SingleProcess(), 4, b -> b.listeners(TrainingLog.csv(csv)))
                .history.epochs();
        for (int from : new int[] {2, 0}) {
            RemoteRun run = new RemoteRun(4, List.of(Metric.of(SCORE, (result, target) -> 0)),
                    List.of(TrainingLog.csv(csv)));
            reports.subList(from, 4).forEach(report -> run.epochEnded(RemoteRun.numbers(report)));
            assertThat(Files.readAllLines(csv).stream().map(line -> line.split(",")[0])).as("from " + from)
                    .containsExactly("epoch", "1", "2", "3", "4");
        }
    }

    /** On another host there is no file yet; in a shared directory, the lost rank may have logged the epoch, too. */
    @Test
    void continuesTheFilesOfALostRankZero() throws IOException {
        int[] rank = {1};
        Progress progress = new Progress(4, new Averages(List.of()), new SingleProcess() {
            @Override
            public int rank() {
                return rank[0];
            }
        });
        Path shared = Files.writeString(directory.resolve("shared.csv"), "epoch,step\n1,3\n2,6\n");
        Path own = directory.resolve("own.jsonl");
        Path curve = directory.resolve("curve.svg");
        List<TrainingListener> listeners = List.of(TrainingLog.csv(shared), TrainingLog.jsonLines(own),
                LearningCurve.in(curve));
        listeners.forEach(l -> l.started(progress));
        for (int epoch = 1; epoch <= 3; epoch++) {
            rank[0] = epoch == 1 ? 1 : 0;
            progress.epoch = epoch - 1;
            EpochReport report = progress.report(Scores.of(List.of(), 1.0 / epoch, new double[0], 1), null);
            listeners.forEach(l -> l.epochEnded(progress, report));
        }
        assertThat(Files.readAllLines(shared).stream().map(line -> line.split(",")[0]))
                .containsExactly("epoch", "1", "2", "3");
        assertThat(Files.readAllLines(own)).hasSize(2);
        assertThat(Files.readString(curve)).as("a line through three points").containsPattern(
                "points=\"[^ \"]+ [^ \"]+ [^ \"]+\" fill=\"none\" stroke=\"#5b8db8\"");
    }

    private static TrainingListener failing(String name, List<String> ended) {
        return new TrainingListener() {
            @Override
            public void ended(Progress progress) {
                ended.add(name);
                throw new IllegalStateException(name);
            }
        };
    }

    /** A listener may have to undo what it did when the run started, as a progress bar has. */
    @Test
    void endsAllListenersAndThrowsTheFirstFailure() {
        List<String> ended = new ArrayList<>();
        TrainingListener steps = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                throw new IllegalArgumentException("step");
            }
        };
        assertThatThrownBy(() -> train(model(5), new SingleProcess(), 1, b -> b.listeners(failing("first", ended),
                failing("second", ended), steps))).isInstanceOf(IllegalArgumentException.class).hasMessage("step")
                .hasSuppressedException(new IllegalStateException("first"))
                .satisfies(e -> assertThat(e.getSuppressed()[0])
                        .hasSuppressedException(new IllegalStateException("second")));
        assertThat(ended).containsExactly("first", "second");
        ended.clear();
        assertThatThrownBy(() -> train(model(5), new SingleProcess(), 1, b -> b.listeners(failing("first", ended),
                failing("second", ended)))).hasMessage("first");
        assertThat(ended).containsExactly("first", "second");
        ended.clear();
        RemoteRun run = new RemoteRun(1, List.of(), List.of(failing("first", ended), failing("second", ended)));
        run.epochEnded(RemoteRun.numbers(new EpochReport(1, 1, Scores.of(List.of(), 1, new double[0], 1),
                Optional.empty(), 1, 1)));
        assertThatThrownBy(run::close).hasMessage("first");
        assertThat(ended).containsExactly("first", "second");
    }

    /** What a run cannot save after an epoch would be lost. */
    @Test
    void takesNoStepIfItsResultsCannotBeSaved() throws IOException {
        Path file = Files.writeString(directory.resolve("file"), "no directory");
        List<Long> steps = new ArrayList<>();
        TrainingListener counting = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                steps.add(progress.step());
            }
        };
        Sequential model = model(5);
        for (Consumer<Trainer.Builder> option : List.<Consumer<Trainer.Builder>>of(b -> b.checkpoints(file),
                b -> b.listeners(BestModel.of(model, file.resolve("best.safetensors"))))) {
            assertThatThrownBy(() -> train(model(5), new SingleProcess(), 2, option.andThen(b ->
                    b.listeners(counting)))).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining(file.toString()).hasMessageContaining("choose another directory");
        }
        model.close();
        assertThat(steps).isEmpty();
    }

    @Test
    void endsTheRunIfTheLogCannotBeWritten() throws IOException {
        Path file = Files.writeString(directory.resolve("file"), "no directory");
        assertThatThrownBy(() -> train(model(5), new SingleProcess(), 1, b -> b.listeners(
                TrainingLog.csv(file.resolve("log.csv"))))).isInstanceOf(DataException.class);
    }

    @Test
    void endsTheRunAfterTheStepThatExceedsTheTime() {
        List<Long> steps = new ArrayList<>();
        for (Duration limit : List.of(Duration.ZERO, Duration.ofHours(1), ChronoUnit.FOREVER.getDuration())) {
            train(model(5), new SingleProcess(), 2, b -> b.listeners(TimeLimit.of(limit), new TrainingListener() {
                @Override
                public void ended(Progress progress) {
                    steps.add(progress.step());
                }
            }));
        }
        assertThat(steps).containsExactly(1L, 6L, 6L);
    }
}
