package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Recompute;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.Augment;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.ImageDataset;
import dev.starling.nn.data.LabelledImages;
import dev.starling.nn.data.Share;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AveragedWeights;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class TrainerTest {
    /** Images of 8×8 with a bright bar, horizontal, vertical or diagonal, on noise. */
    static LabelledImages bars(int count, long seed) {
        Random random = new Random(seed);
        byte[] pixels = new byte[count * 64];
        byte[] labels = new byte[count];
        for (int i = 0; i < count; i++) {
            labels[i] = (byte) random.nextInt(3);
            int position = 1 + random.nextInt(6);
            for (int k = 0; k < 64; k++) {
                pixels[i * 64 + k] = (byte) random.nextInt(100);
            }
            for (int k = 0; k < 8; k++) {
                int at = switch (labels[i]) {
                    case 0 -> position * 8 + k;
                    case 1 -> k * 8 + position;
                    default -> k * 8 + k;
                };
                pixels[i * 64 + at] = (byte) 250;
            }
        }
        return new LabelledImages(1, 8, 8, 3, pixels, labels);
    }

    static DataLoader loader(LabelledImages images, int workers) {
        Augment augment = Augment.normalize(1, 8, 8, new float[] {0.3f}, new float[] {0.3f}).randomCrop(1);
        return DataLoader.of(ImageDataset.of(images, augment)).batchSize(32).workers(workers).shuffle().seed(3).build();
    }

    private static Sequential mlp(long seed) {
        Generator g = Generator.seeded(seed);
        return Sequential.of(new Flatten(), Linear.of(64, 32, g), BatchNorm.of(32), new Relu(), new Dropout(0.2),
                Linear.of(32, 3, g));
    }

    @Test
    void trainsAConvolutionalNetwork() {
        Generator g = Generator.seeded(1);
        try (Sequential net = Sequential.of(Conv2d.of(1, 8, 3).padding(1).build(g), new Relu(), MaxPool2d.of(2),
                new Flatten(), Linear.of(8 * 16, 3, g));
                Optimizer adam = Adam.over(net).rate(0.005).build();
                DataLoader train = loader(bars(600, 1), 2);
                DataLoader test = loader(bars(200, 2), 1)) {
            History history = Trainer.of(net, Loss.crossEntropy(), adam).data(train).heldOut(test).epochs(6)
                    .metrics(Metric.accuracy(), Metric.topAccuracy(2)).build().run();
            assertThat(history.epochs()).hasSize(6);
            EpochReport last = history.last();
            assertThat(last.heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.97);
            assertThat(last.heldOut().orElseThrow().metric("top-2"))
                    .isGreaterThanOrEqualTo(last.heldOut().orElseThrow().metric("accuracy"));
            assertThat(last.heldOut().orElseThrow().examples()).isEqualTo(200);
            assertThat(last.training().loss()).isLessThan(history.epochs().getFirst().training().loss());
            assertThat(last.step()).isEqualTo(6 * 19);
            assertThat(last.itemsPerSecond()).isPositive();
        }
    }

    // ---- resuming ----

    private record Outcome(Map<String, float[]> weights, List<EpochReport> epochs) { }

    private static Outcome run(Path directory, long everySteps, boolean resume, long stopAfter, int workers,
            boolean adamW) {
        try (Sequential net = mlp(resume ? 99 : 5);
                Optimizer optimizer = adamW
                        ? ClipByNorm.of(Adam.over(net).rate(Schedule.cosine(0.01, 0, 60).warmUp(5)).build(), 1)
                        : Sgd.over(net).rate(0.05).momentum(0.9).nesterov().weightDecay(1e-3).build();
                DataLoader data = loader(bars(300, 1), workers)) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(0.1), optimizer).data(data).heldOut(data)
                    .epochs(4).seed(resume ? 77 : 11).metrics(Metric.accuracy());
            if (directory != null) {
                builder.checkpoints(directory, everySteps);
            }
            if (resume) {
                builder.resume();
            }
            Trainer trainer = builder.listeners(new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    if (progress.step() == stopAfter) {
                        progress.stop();
                    }
                }
            }).build();
            History history = trainer.run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            net.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
            optimizer.state().forEach((path, p) -> weights.put("optimizer " + path, p.value().toFloats()));
            return new Outcome(weights, history.epochs());
        }
    }

    private static void assertResumes(Path directory, long everySteps, long stopAfter, boolean adamW) {
        Outcome whole = run(null, 0, false, -1, 1, adamW);
        Outcome first = run(directory, everySteps, false, stopAfter, 2, adamW);
        Outcome second = run(directory, everySteps, true, -1, 3, adamW);
        assertThat(second.weights.keySet()).isEqualTo(whole.weights.keySet());
        whole.weights.forEach((path, w) -> assertThat(second.weights.get(path)).as(path).isEqualTo(w));
        List<EpochReport> joined = new ArrayList<>(first.epochs);
        joined.addAll(second.epochs);
        assertThat(joined.stream().map(EpochReport::training)).isEqualTo(whole.epochs.stream()
                .map(EpochReport::training).toList());
        assertThat(joined.stream().map(EpochReport::heldOut)).isEqualTo(whole.epochs.stream()
                .map(EpochReport::heldOut).toList());
    }

    @Test
    void resumesInTheMiddleOfAnEpochBitForBit(@TempDir Path directory) {
        assertResumes(directory, 0, 17, true);
    }

    @Test
    void resumesAtTheLastStepOfAnEpochBitForBit(@TempDir Path directory) {
        assertResumes(directory, 0, 20, false);
    }

    @Test
    void resumesAFailedRunFromItsLastCheckpointBitForBit(@TempDir Path directory) throws IOException {
        Outcome whole = run(null, 0, false, -1, 1, true);
        run(directory, 7, false, 25, 1, true);
        // Simulates a run that was killed after step 21, before it saved its last checkpoint.
        Files.delete(directory.resolve("step-0000000025.json"));
        Outcome second = run(directory, 7, true, -1, 1, true);
        whole.weights.forEach((path, w) -> assertThat(second.weights.get(path)).as(path).isEqualTo(w));
    }

    @Test
    void resumesFromTheLatestIntactCheckpointIfThatIsAllowed(@TempDir Path directory) throws IOException {
        run(directory, 7, false, 25, 1, false);
        Files.writeString(directory.resolve("step-0000000025.json"), "{");
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).momentum(0.9).build();
                DataLoader data = loader(bars(300, 1), 1)) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), sgd).data(data).checkpoints(directory)
                    .epochs(4).listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            progress.stop();
                        }
                    });
            assertThatThrownBy(builder.resume().build()::run).isInstanceOf(CheckpointException.class);
            Trainer trainer = builder.skipDamaged().build();
            trainer.run();
            assertThat(trainer.progress().step()).isEqualTo(22);
        }
    }

    @Test
    void refusesACheckpointOfOtherData(@TempDir Path directory) {
        run(directory, 0, false, 3, 1, false);
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).momentum(0.9).build();
                DataLoader other = loader(bars(301, 1), 1)) {
            Trainer trainer = Trainer.of(net, Loss.crossEntropy(), sgd).data(other).checkpoints(directory).resume()
                    .build();
            assertThatThrownBy(trainer::run).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("300 examples").hasMessageContaining("301 examples");
        }
    }

    @Test
    void namesTheOptimizerOfTheCheckpointIfItIsAnother(@TempDir Path directory) {
        run(directory, 0, false, 3, 1, false);
        try (Sequential net = mlp(1); Optimizer adam = Adam.over(net).build(); DataLoader data = loader(bars(300, 1),
                1)) {
            Trainer trainer = Trainer.of(net, Loss.crossEntropy(), adam).data(data).checkpoints(directory).resume()
                    .build();
            assertThatThrownBy(trainer::run).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("was saved with the optimiser Sgd[momentum=0.9")
                    .hasMessageContaining("but this run has " + adam.settings().get("optimiser"))
                    .hasMessageEndingWith("resume with the optimiser that was saved");
        }
    }

    /** Notes travel in messages: a rule that names hundreds of parameters would not fit. */
    @Test
    void abridgesTheOptimizerInItsNotes() {
        Linear[] layers = new Linear[60];
        Arrays.setAll(layers, i -> Linear.of(1, 1, Generator.seeded(i)));
        try (Sequential net = Sequential.of(layers); Optimizer sgd = Sgd.over(net).weightDecay(0.1)
                .withoutDecay(path -> path.endsWith("bias")).build()) {
            TrainingState state = new TrainingState(net, sgd, null, 7, new Progress(1, new Averages(List.of())), null);
            assertThat(state.notes().get("optimizer.rule")).startsWith("Sgd[").endsWith("…").hasSize(201);
        }
    }

    /** At the beginning of an epoch a run may go on with its examples in another order. */
    @Test
    void refusesAnotherOrderWithinAnEpoch() {
        Dataset images = ImageDataset.of(bars(100, 1), Augment.normalize(1, 8, 8, new float[] {0}, new float[] {1}));
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).build();
                DataLoader shuffled = DataLoader.of(images).batchSize(8).shuffle().build();
                DataLoader plain = DataLoader.of(images).batchSize(8).dropLast().build()) {
            Map<String, String> notes = new HashMap<>(state(net, sgd, shuffled).notes());
            TrainingState other = state(net, sgd, plain);
            other.restore(notes);
            notes.put("batch", "3");
            state(net, sgd, shuffled).restore(notes);
            assertThatThrownBy(() -> other.restore(notes)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("within an epoch (order of the data: shuffled, smaller last batch: used)")
                    .hasMessageContaining("order of the data: that of the data set, smaller last batch: left out");
            notes.remove("data.order");
            other.restore(notes);
        }
    }

    private static TrainingState state(Layer net, Optimizer optimizer, DataLoader data) {
        return new TrainingState(net, optimizer, data, 7, new Progress(1, new Averages(List.of())), null);
    }

    @Test
    void givesTheLoaderItsShareBack() {
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).build();
                DataLoader data = loader(bars(100, 1), 0)) {
            Trainer.of(net, Loss.crossEntropy(), sgd).data(data).epochs(1).strategy(new SingleProcess() {
                @Override
                public Share share() {
                    return Share.part(0, 2);
                }
            }).build().run();
            assertThat(data.share()).isEqualTo(Share.whole());
            assertThat(data.examples()).isEqualTo(100);
        }
    }

    /** Position, seed, loss scale and listeners stay as they are if one note is missing or malformed. */
    @Test
    void restoresNothingFromDamagedNotes(@TempDir Path directory) {
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).build()) {
            TrainingState state = new TrainingState(net, sgd, null, 7, new Progress(1, new Averages(List.of())),
                    new LossScale());
            state.listeners(List.of(EarlyStopping.patience(3)));
            Map<String, String> present = state.notes();
            Map<String, String> saved = new HashMap<>(present);
            saved.putAll(Map.of("step", "5", "random.seed", "8", "loss.scale", "2.0 1 1",
                    "listener.EarlyStopping.best", "0.5"));
            Map<String, String> damages = Map.of("random.seed", "", "loss.scale", "2.0",
                    "listener.EarlyStopping.worse", "x");
            damages.forEach((name, note) -> {
                Map<String, String> notes = new HashMap<>(saved);
                notes.put(name, note);
                assertThatThrownBy(() -> state.restore(notes)).as(name).isInstanceOf(TensorException.class)
                        .hasMessageContaining("not those of a training run");
                assertThat(state.notes()).as(name).isEqualTo(present);
            });
            saved.put("sum.loss", "x");
            Checkpoint.save(directory, 5, state.tensors(), saved);
            Checkpoint damaged = Checkpoint.latest(directory).orElseThrow();
            assertThatThrownBy(() -> state.restore(damaged)).isInstanceOf(CheckpointException.class);
            assertThat(state.notes()).isEqualTo(present);
        }
    }

    @Test
    void keepsTheLatestCheckpoints(@TempDir Path directory) throws IOException {
        run(directory, 5, false, -1, 1, false);
        try (var files = Files.list(directory)) {
            assertThat(files.map(f -> f.getFileName().toString().replaceAll("-[0-9a-f]{8}\\.", ".")).sorted())
                    .containsExactly("step-0000000035.json", "step-0000000035.safetensors", "step-0000000040.json",
                            "step-0000000040.safetensors");
        }
    }

    // ---- guarantees of a step ----

    @Test
    void leavesTheWeightsUnchangedIfTheLossIsNotFinite() {
        try (Scope scope = Scope.open(); Linear line = Linear.of(2, 1, Generator.seeded(1));
                Optimizer adam = Adam.over(line).build()) {
            float[] before = line.weight().value().toFloats();
            TrainingStep step = new TrainingStep(line, Loss.meanSquared(), adam, Generator.seeded(1));
            Tensor poison = Tensor.of(new float[] {1, Float.NaN}, 1, 2);
            assertThatThrownBy(() -> step.run(poison, Tensor.zeros(1, 1))).isInstanceOf(TensorException.class)
                    .extracting(e -> ((TensorException) e).problem()).isEqualTo(TensorException.Problem.ANOMALY);
            assertThat(line.weight().value().toFloats()).isEqualTo(before);
            assertThat(adam.steps()).isZero();
            step.run(Tensor.ones(1, 2), Tensor.zeros(1, 1));
            assertThat(line.weight().value().toFloats()).isNotEqualTo(before);
        }
    }

    @Test
    void keepsRunningStatisticsFiniteAfterABadBatch() {
        try (Scope scope = Scope.open(); Sequential net = Sequential.of(BatchNorm.of(2), Linear.of(2, 1,
                Generator.seeded(1))); Optimizer sgd = Sgd.over(net).build()) {
            TrainingStep step = new TrainingStep(net, Loss.meanSquared(), sgd, Generator.seeded(1));
            step.run(Tensor.of(new float[] {1, 2, 3, 5}, 2, 2), Tensor.zeros(2, 1));
            Tensor poison = Tensor.of(new float[] {1, Float.NaN, 3, Float.POSITIVE_INFINITY}, 2, 2);
            assertThatThrownBy(() -> step.run(poison, Tensor.zeros(2, 1))).isInstanceOf(TensorException.class);
            // Means 2 and 3.5, unbiased variances 2 and 4.5, a tenth each; the finite channel is updated, the other is
            // not.
            assertThat(net.state().get("0.running_mean").value().toFloats()).containsExactly(new float[] {0.38f, 0.35f},
                    within(1e-5f));
            assertThat(net.state().get("0.running_var").value().toFloats()).containsExactly(new float[] {1.19f, 1.35f},
                    within(1e-5f));
        }
    }

    @Test
    void freesTheTensorsOfAStep() {
        try (Scope scope = Scope.open(); Sequential net = mlp(1); Optimizer adam = Adam.over(net).build()) {
            Tensor x = Generator.seeded(1).normal(16, 1, 8, 8);
            Tensor y = Generator.seeded(2).integers(0, 3, 16);
            TrainingStep step = new TrainingStep(net, Loss.crossEntropy(), adam, Generator.seeded(1));
            step.run(x, y);
            int owned = scope.size();
            long live = x.device().backend().memory().use().live();
            for (int i = 0; i < 50; i++) {
                step.run(x, y);
            }
            assertThat(scope.size()).isEqualTo(owned);
            // Not equal: a garbage collection may free what other tests of this process left.
            assertThat(x.device().backend().memory().use().live()).isLessThanOrEqualTo(live);
        }
    }

    /** Records its calls, doubles gradients, and can prevent the optimiser's step. */
    private static final class RecordingStrategy extends SingleProcess {
        private final List<String> calls = new ArrayList<>();
        private boolean steps = true;

        @Override
        public void start(TrainingState state) {
            calls.add("start " + state.optimizer().parameters().size());
        }

        @Override
        public void gradient(int index, Tensor gradient) {
            calls.add("gradient " + index);
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            calls.add("before");
            Arrays.setAll(gradients, i -> gradients[i].mul(2));
            return steps ? Step.LOCAL : Step.ELSEWHERE;
        }

        @Override
        public void afterStep() {
            calls.add("after");
        }
    }

    /** A strategy may still be sending gradients, which are freed with the step. */
    @Test
    void notifiesTheStrategyOfAFailedStepWhileItsGradientsExist() {
        List<Tensor> received = new ArrayList<>();
        List<Boolean> closed = new ArrayList<>();
        SingleProcess strategy = new SingleProcess() {
            @Override
            public void gradient(int index, Tensor gradient) {
                received.add(gradient);
                if (received.size() == 2) {
                    throw new IllegalStateException("no connection");
                }
            }

            @Override
            public void onFailedStep() {
                received.forEach(gradient -> closed.add(gradient.isClosed()));
            }
        };
        try (Linear line = Linear.of(1, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(line).build()) {
            TrainingStep step = new TrainingStep(line, (x, y) -> x.sum(), sgd, Generator.seeded(1), strategy);
            assertThatThrownBy(() -> step.run(Tensor.ones(1, 1), Tensor.zeros(1, 1))).hasMessage("no connection");
            assertThat(closed).containsExactly(false, false);
            assertThat(received).allMatch(Tensor::isClosed);
            received.clear();
            closed.clear();
            received.add(Tensor.ones(1));
            assertThatThrownBy(() -> step.run(Tensor.ones(1, 1), Tensor.zeros(1, 1))).hasMessage("no connection");
            received.addAll(List.of(Tensor.ones(1), Tensor.ones(1)));
            step.run(Tensor.ones(1, 1), Tensor.zeros(1, 1));
            assertThat(closed).as("a step that succeeds").hasSize(2);
        }
    }

    @Test
    void passesGradientsToTheStrategyThatMayChangeThem() {
        try (Scope scope = Scope.open(); Sequential net = mlp(1);
                Linear line = Linear.of(1, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(line).rate(0.5).build()) {
            RecordingStrategy strategy = new RecordingStrategy();
            TrainingStep step = new TrainingStep(line, (x, y) -> x.sum(), sgd, Generator.seeded(1), strategy);
            double weight = line.weight().value().item();
            double bias = line.bias().value().item();
            // d(3w + b)/dw = 3, d/db = 1; doubled, times 0.5.
            step.run(Tensor.of(new float[] {3}, 1, 1), Tensor.zeros(1, 1));
            assertThat(strategy.calls.subList(0, 2)).containsExactlyInAnyOrder("gradient 0", "gradient 1");
            assertThat(strategy.calls.subList(2, 4)).containsExactly("before", "after");
            assertThat(line.weight().value().item()).isCloseTo(weight - 3, within(1e-5));
            assertThat(line.bias().value().item()).isCloseTo(bias - 1, within(1e-5));
            strategy.steps = false;
            step.run(Tensor.of(new float[] {3}, 1, 1), Tensor.zeros(1, 1));
            assertThat(line.weight().value().item()).isCloseTo(weight - 3, within(1e-5));
        }
    }

    /** A part of the model that is computed again in the backward pass drops the same elements again. */
    @Test
    void recomputesInTrainingMode() {
        List<float[]> weights = new ArrayList<>();
        for (boolean recomputes : new boolean[] {false, true}) {
            try (Scope scope = Scope.open(); Sequential stage = Sequential.of(Linear.of(6, 40, Generator.seeded(1)),
                    new Dropout(0.5), Linear.of(40, 1, Generator.seeded(2)));
                    Optimizer sgd = Sgd.over(stage).rate(1).build();
                    TrainingStep step = new TrainingStep(x -> recomputes
                            ? Recompute.checkpoint(stage::forward, x, Mode.generator()) : stage.forward(x),
                            Loss.meanSquared(), sgd, Generator.seeded(3))) {
                step.run(Generator.seeded(4).normal(8, 6), Tensor.zeros(8, 1));
                weights.add(stage.state().get("0.weight").value().toFloats());
            }
        }
        assertThat(weights.get(1)).containsExactly(weights.get(0), within(1e-6F));
    }

    @Test
    void doesNotChangeFrozenParameters() {
        try (Scope scope = Scope.open(); Sequential net = mlp(1)) {
            Parameter first = net.state().get("1.weight").freeze();
            try (Optimizer sgd = Sgd.over(net).rate(1).build()) {
                float[] before = first.value().toFloats();
                float[] other = net.state().get("5.weight").value().toFloats();
                new TrainingStep(net, Loss.crossEntropy(), sgd, Generator.seeded(1))
                        .run(Generator.seeded(1).normal(16, 1, 8, 8), Generator.seeded(2).integers(0, 3, 16));
                assertThat(first.value().toFloats()).isEqualTo(before);
                assertThat(net.state().get("5.weight").value().toFloats()).isNotEqualTo(other);
            }
        }
    }

    @Test
    void trainsTwoModelsConcurrentlyAsSequentially() throws Exception {
        Callable<float[]> one = () -> lastLayer(5);
        Callable<float[]> two = () -> lastLayer(6);
        List<float[]> sequential = List.of(one.call(), two.call());
        try (ExecutorService threads = Executors.newFixedThreadPool(2)) {
            var first = threads.submit(one);
            var second = threads.submit(two);
            assertThat(first.get()).isEqualTo(sequential.get(0));
            assertThat(second.get()).isEqualTo(sequential.get(1));
        }
    }

    private static float[] lastLayer(long seed) {
        try (Sequential net = mlp(seed); Optimizer adam = Adam.over(net).build();
                DataLoader data = loader(bars(200, seed), 1)) {
            Trainer.of(net, Loss.crossEntropy(), adam).data(data).epochs(2).seed(seed).build().run();
            return net.state().get("5.weight").value().toFloats();
        }
    }

    @Test
    void ignoresChangesOfItsBuilderAfterBuild(@TempDir Path directory) {
        try (Sequential net = mlp(1); Optimizer sgd = Sgd.over(net).build(); DataLoader data = loader(bars(64, 1), 0)) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), sgd).data(data).epochs(2)
                    .metrics(Metric.accuracy());
            Trainer trainer = builder.build();
            builder.data(null).heldOut(data).epochs(5).accumulate(2).captured().metrics().strategy(null)
                    .precision(Precision.of(DType.BF16)).checkpoints(directory).listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            throw new AssertionError("this listener was added after build()");
                        }
                    });
            History history = trainer.run();
            assertThat(history.epochs()).hasSize(2);
            assertThat(history.last().step()).isEqualTo(4);
            assertThat(history.last().training().metrics()).containsOnlyKeys("accuracy");
            assertThat(history.last().heldOut()).isEmpty();
            assertThat(directory).isEmptyDirectory();
        }
    }

    /** The loss falls in the first two epochs only; the rate falls after two further ones. */
    @Test
    void reducesTheRateOnAPlateau() {
        List<Double> rates = new ArrayList<>();
        Plateau plateau = Plateau.of(0.5).factor(0.5).patience(1).lowest(0.2);
        double[] losses = {3, 2, 2, 2, 1.99999, 2, 5, 1, 1};
        for (int i = 0; i < losses.length; i++) {
            Scores scores = new Scores(losses[i], Map.of("accuracy", -losses[i]), Map.of(), 1);
            plateau.epochEnded(new Progress(9, new Averages(List.of())), new EpochReport(i + 1, i, scores,
                    Optional.of(scores), 1, 1));
            rates.add(plateau.rate(i));
        }
        assertThat(rates).containsExactly(0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2);
    }

    /** The averages continue from the checkpoint as if the run had not been interrupted. */
    @Test
    void resumesAveragedWeights(@TempDir Path directory) {
        List<float[]> averages = new ArrayList<>();
        for (int epochs : new int[] {4, 2, 4}) {
            try (Sequential net = mlp(5); AveragedWeights optimizer = AveragedWeights.exponential(
                    Adam.over(net).rate(0.01).build(), 0.9); DataLoader data = loader(bars(100, 1), 0)) {
                Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), optimizer).data(data).epochs(epochs);
                (averages.isEmpty() ? builder : builder.checkpoints(directory).resume()).build().run();
                averages.add(optimizer.average(0).toFloats());
                assertThat(optimizer.average(0).toFloats())
                        .isNotEqualTo(optimizer.parameters().getFirst().value().toFloats());
            }
        }
        assertThat(averages.get(2)).isEqualTo(averages.get(0)).isNotEqualTo(averages.get(1));
    }

    @Test
    void refusesToTrainOrEvaluateOnNothing() {
        try (Scope scope = Scope.open(); Linear model = Linear.of(1, 1, Generator.seeded(1));
                Optimizer sgd = Sgd.over(model).build();
                DataLoader few = DataLoader.of(TensorDataset.of(Tensor.ones(3, 1), Tensor.ones(3, 1))).batchSize(4)
                        .dropLast().build();
                DataLoader some = DataLoader.of(TensorDataset.of(Tensor.ones(3, 1), Tensor.ones(3, 1))).build()) {
            assertThatThrownBy(() -> Trainer.of(model, Loss.meanSquared(), sgd).data(few).build().run())
                    .isInstanceOf(TensorException.class).hasMessageContaining("no batch to train on")
                    .hasMessageContaining("3 examples").hasMessageContaining("dropLast()");
            assertThatThrownBy(() -> Trainer.of(model, Loss.meanSquared(), sgd).data(some).heldOut(few).build().run())
                    .isInstanceOf(TensorException.class).hasMessageContaining("no example to evaluate");
            assertThat(sgd.steps()).isZero();
            assertThatThrownBy(() -> Scores.evaluate(model, Loss.meanSquared(), few))
                    .isInstanceOf(TensorException.class).hasMessageContaining("no example to evaluate");
            assertThatThrownBy(() -> ConfusionMatrix.evaluate(model, few, 2))
                    .isInstanceOf(TensorException.class).hasMessageContaining("no example to evaluate");
            assertThatThrownBy(() -> Trainer.of(model, Loss.meanSquared(), sgd).epochs(-1))
                    .isInstanceOf(TensorException.class).hasMessageContaining("epochs must be >= 0");
            assertThatThrownBy(() -> Trainer.of(model, Loss.meanSquared(), sgd).checkpoints(Path.of("unused"), -1))
                    .isInstanceOf(TensorException.class).hasMessageContaining("steps must be >= 0");
        }
    }

    @Test
    void computesScoresAsMeansOverExamples() {
        try (Scope scope = Scope.open();
                DataLoader data = DataLoader.of(TensorDataset.of(Tensor.of(new float[] {1, 2, 6}, 3, 1),
                        Tensor.of(new float[] {0, 0, 0}, 3, 1))).batchSize(2).build()) {
            // (1 + 4 + 36)/3 and (1 + 2 + 6)/3, although the batches differ in size.
            Scores scores = Scores.evaluate(x -> x, Loss.meanSquared(), data, Metric.meanAbsoluteError());
            assertThat(scores.loss()).isCloseTo(41 / 3.0, within(1e-6));
            assertThat(scores.metric("mean absolute error")).isCloseTo(3, within(1e-6));
            assertThatThrownBy(() -> scores.metric("accuracy")).isInstanceOf(TensorException.class);
        }
    }

    /** A logit of 0 means class 0, like a negative one. */
    @Test
    void countsCorrectBinaryAnswers() {
        try (Scope scope = Scope.open()) {
            Tensor logits = Tensor.of(new float[] {2, -1, 0.3F, 0, 4}, 5, 1);
            Tensor target = Tensor.of(new float[] {1, 1, 1, 0, 0}, 5, 1);
            Metric metric = Metric.binaryAccuracy();
            assertThat(metric.sumOver(logits, target)).isEqualTo(3);
            assertThat(metric.sumOver(logits.reshape(5), target.reshape(5))).isEqualTo(3);
            assertThat(metric.format(0.6)).isEqualTo(Metric.accuracy().format(0.6));
        }
    }
}
