package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.Augment;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.ImageDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class MixedPrecisionTest {
    private static Sequential network(long seed) {
        Generator g = Generator.seeded(seed);
        return Sequential.of(Conv2d.of(1, 8, 3).padding(1).withoutBias().build(g), BatchNorm.of(8), new Relu(),
                MaxPool2d.of(2), new Flatten(), Linear.of(8 * 16, 3, g));
    }

    private static TrainingStep step(DType type, Layer model, Loss loss, Optimizer optimizer) {
        return new TrainingStep(model, loss, optimizer, Generator.seeded(1)).precision(Precision.of(type));
    }

    // ---- training ----

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16", "F16"})
    void trainsANetworkToTheSameAccuracyInEveryType(DType type) {
        try (Sequential net = network(1); Optimizer adam = Adam.over(net).rate(0.005).build();
                DataLoader train = TrainerTest.loader(TrainerTest.bars(600, 1), 1);
                DataLoader test = TrainerTest.loader(TrainerTest.bars(300, 2), 1)) {
            History history = Trainer.of(net, Loss.crossEntropy(), adam).data(train).heldOut(test).epochs(5)
                    .metrics(Metric.accuracy()).precision(Precision.of(type)).build().run();
            assertThat(history.last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.98);
            assertThat(net.state().values()).allMatch(p -> p.value().dtype() == DType.F32);
            assertThat(adam.state().values()).allMatch(p -> p.value().dtype() == DType.F32);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void computesStepsCloseToThoseOfF32(DType type) {
        float[][] weights = new float[2][];
        double[] losses = new double[2];
        for (int i = 0; i < 2; i++) {
            try (Scope scope = Scope.open(); Sequential net = network(2);
                    Optimizer sgd = Sgd.over(net).rate(0.1).build();
                    TrainingStep step = step(i == 0 ? DType.F32 : type, net, Loss.crossEntropy(), sgd)) {
                Generator g = Generator.seeded(5);
                Tensor x = g.normal(32, 1, 8, 8);
                Tensor y = g.integers(0, 3, 32);
                for (int k = 0; k < 10; k++) {
                    losses[i] = step.run(x, y);
                }
                weights[i] = net.state().get("5.weight").value().toFloats();
            }
        }
        assertThat(losses[1]).isCloseTo(losses[0], within(1e-2));
        assertThat(weights[1]).isNotEqualTo(weights[0]).containsExactly(weights[0], within(1e-2f));
    }

    /**
     * The last stage of a network that halves its images: only the middle tap of a 3×3 kernel covers the single pixel.
     */
    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void keepsWeightsOfTapsThatCoverOnlyPadding(DType type) {
        try (Scope scope = Scope.open()) {
            Generator g = Generator.seeded(1);
            Sequential net = Sequential.of(Conv2d.of(16, 32, 3).stride(2).padding(1).build(g), new Relu(),
                    new Flatten(), Linear.of(32, 4, g));
            Tensor weight = net.parameters().get("0.weight").value();
            float[] before = weight.get("..., 0, :").contiguous().toFloats();
            try (net; Optimizer sgd = Sgd.over(net).rate(0.1).build();
                    TrainingStep step = step(type, net, Loss.crossEntropy(), sgd)) {
                Tensor x = g.normal(8, 16, 1, 1);
                Tensor y = g.integers(0, 4, 8);
                double first = step.run(x, y);
                for (int i = 0; i < 20; i++) {
                    assertThat(step.run(x, y)).isLessThan(first);
                }
                assertThat(weight.get("..., 0, :").contiguous().toFloats()).isEqualTo(before);
                assertThat(weight.abs().max().item()).isBetween(0.08, 0.5);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void computesTheSameBitsCaptured(DType type) {
        float[][] weights = new float[2][];
        for (int i = 0; i < 2; i++) {
            try (Scope scope = Scope.open(); Sequential net = network(2); Optimizer adam = Adam.over(net).build();
                    TrainingStep step = step(type, net, Loss.crossEntropy(), adam)) {
                if (i == 1) {
                    step.captured();
                }
                Generator g = Generator.seeded(5);
                for (int k = 0; k < 8; k++) {
                    step.run(g.normal(16, 1, 8, 8), g.integers(0, 3, 16));
                }
                weights[i] = net.state().get("5.weight").value().toFloats();
            }
        }
        assertThat(weights[1]).isEqualTo(weights[0]);
    }

    @Test
    void accumulatesBatchesOfOneStep() {
        float[][] weights = new float[2][];
        for (int i = 0; i < 2; i++) {
            try (Sequential net = Sequential.of(new Flatten(), Linear.of(64, 3, Generator.seeded(1)));
                    Optimizer sgd = Sgd.over(net).rate(0.1).build();
                    DataLoader data = DataLoader.of(ImageDataset.of(TrainerTest.bars(64, 1),
                            Augment.normalize(1, 8, 8, new float[] {0}, new float[] {1})))
                            .batchSize(i == 0 ? 64 : 16).build()) {
                Trainer.of(net, Loss.crossEntropy(), sgd).data(data).accumulate(i == 0 ? 1 : 4)
                        .precision(Precision.of(DType.F16)).build().run();
                weights[i] = net.state().get("1.weight").value().toFloats();
            }
        }
        assertThat(weights[1]).containsExactly(weights[0], within(1e-4f));
    }

    // ---- the scale of the loss ----

    /** A loss whose gradient is {@code slope} for each element of the result. */
    private static Loss slope(double slope) {
        return (result, target) -> result.sum().mul(slope);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void skipsAnOverflowAndHalvesTheScale(boolean clipped) {
        try (Scope scope = Scope.open(); Linear line = Linear.of(2, 1, Generator.seeded(1));
                Optimizer adam = clipped ? ClipByNorm.of(Adam.over(line).build(), 1) : Adam.over(line).build();
                TrainingStep step = step(DType.F16, line, slope(3), adam)) {
            float[] before = line.weight().value().toFloats();
            // 3·65536 exceeds f16's maximum of 65504, and so does half of it; a quarter does not.
            for (int i = 1; i <= 2; i++) {
                assertThat(step.run(Tensor.ones(1, 2), Tensor.zeros(1, 1))).isFinite();
                assertThat(step.lossScale()).isEqualTo(65536 >> i);
                assertThat(step.skipped()).isEqualTo(i);
                assertThat(line.weight().value().toFloats()).isEqualTo(before);
                assertThat(adam.steps()).isZero();
                assertThat(adam.state().values()).allMatch(p -> p.value().square().sum().item() == 0);
            }
            step.run(Tensor.ones(1, 2), Tensor.zeros(1, 1));
            assertThat(step.skipped()).isEqualTo(2);
            assertThat(adam.steps()).isEqualTo(1);
            assertThat(line.weight().value().toFloats()).isNotEqualTo(before);
        }
    }

    @Test
    void keepsAGradientThatIsTooSmallForF16() {
        double slope = 1e-8;
        assertThat(Tensor.scalar(slope).to(DType.F16).item()).as("without a scale it is 0").isZero();
        try (Scope scope = Scope.open(); Linear line = Linear.of(1, 1, Generator.seeded(1));
                Optimizer sgd = Sgd.over(line).rate(1e6).build();
                TrainingStep step = step(DType.F16, line, slope(slope), sgd)) {
            double before = line.weight().value().item();
            step.run(Tensor.ones(1, 1), Tensor.zeros(1, 1));
            assertThat(before - line.weight().value().item()).isCloseTo(1e-2, within(1e-4));
        }
    }

    @Test
    void doublesTheScaleAfterTwoThousandFiniteSteps() {
        LossScale scale = new LossScale();
        for (int i = 0; i < 1999; i++) {
            scale.adjust(true);
        }
        assertThat(scale.scale()).isEqualTo(65536);
        Map<String, String> notes = new HashMap<>();
        scale.save(notes);
        LossScale resumed = new LossScale();
        resumed.restoring(notes).run();
        resumed.adjust(true);
        assertThat(resumed.scale()).isEqualTo(2 * 65536);
        resumed.adjust(false);
        assertThat(resumed.scale()).isEqualTo(65536);
        resumed.restoring(Map.of()).run();
        assertThat(resumed.skipped()).isZero();
    }

    @Test
    void endsTheRunIfNoScaleMakesGradientsFinite() {
        LossScale scale = new LossScale();
        assertThatThrownBy(() -> {
            for (int i = 0; i < 100; i++) {
                scale.adjust(false);
            }
        }).isInstanceOf(TensorException.class).hasMessageContaining("loss scale");
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void throwsIfTheLossIsNotFinite(DType type) {
        try (Scope scope = Scope.open(); Linear line = Linear.of(2, 1, Generator.seeded(1));
                Optimizer adam = Adam.over(line).build();
                TrainingStep step = step(type, line, Loss.meanSquared(), adam)) {
            float[] before = line.weight().value().toFloats();
            assertThatThrownBy(() -> step.run(Tensor.of(new float[] {1, Float.NaN}, 1, 2), Tensor.zeros(1, 1)))
                    .isInstanceOf(TensorException.class)
                    .extracting(e -> ((TensorException) e).problem()).isEqualTo(TensorException.Problem.ANOMALY);
            assertThat(line.weight().value().toFloats()).isEqualTo(before);
            assertThat(adam.steps()).isZero();
        }
    }

    private static final class Server extends SingleProcess implements StepsElsewhere {
        @Override
        public boolean stepsElsewhere() {
            return true;
        }
    }

    @Test
    void refusesF16IfStepsArePerformedElsewhere() {
        try (Linear line = Linear.of(2, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(line).build()) {
            TrainingStep step = new TrainingStep(line, Loss.meanSquared(), sgd, Generator.seeded(1),
                    new Server());
            assertThat(step.precision(Precision.of(DType.BF16))).isSameAs(step);
            assertThatThrownBy(() -> step.precision(Precision.of(DType.F16))).isInstanceOf(TensorException.class)
                    .hasMessageContaining("use bf16");
        }
    }

    // ---- checkpoints ----

    private record Outcome(Map<String, float[]> weights, long skipped) { }

    private static Outcome run(DType type, Path directory, boolean resume, long stopAfter) {
        try (Sequential net = network(resume ? 99 : 5); Optimizer adam = Adam.over(net).rate(0.01).build();
                DataLoader data = TrainerTest.loader(TrainerTest.bars(200, 1), 1)) {
            Trainer.Builder builder = Trainer.of(net, steepLoss(), adam).data(data).epochs(3).seed(11)
                    .precision(Precision.of(type)).listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            if (progress.step() == stopAfter) {
                                progress.stop();
                            }
                        }
                    });
            if (directory != null) {
                builder.checkpoints(directory);
            }
            if (resume) {
                builder.resume();
            }
            Trainer trainer = builder.build();
            trainer.run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            net.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
            return new Outcome(weights, trainer.progress().skipped());
        }
    }

    /** A loss with gradients large enough to overflow f16 at first. */
    private static Loss steepLoss() {
        return (result, target) -> Loss.crossEntropy().of(result, target).mul(100);
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void resumesAStoppedRunBitForBit(DType type, @TempDir Path directory) {
        Outcome whole = run(type, null, false, -1);
        run(type, directory, false, 9);
        Outcome resumed = run(type, directory, true, -1);
        whole.weights.forEach((path, w) -> assertThat(resumed.weights.get(path)).as(path).isEqualTo(w));
        assertThat(resumed.skipped).isEqualTo(whole.skipped);
        assertThat(whole.skipped > 0).isEqualTo(type == DType.F16);
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void loadsTheWeightsIntoARunInF32(DType type, @TempDir Path directory) {
        Outcome trained = run(type, directory, false, -1);
        // All epochs are done, so its weights are those of the checkpoint.
        Outcome loaded = run(DType.F32, directory, true, -1);
        trained.weights.forEach((path, w) -> assertThat(loaded.weights.get(path)).as(path).isEqualTo(w));
    }

    // ---- memory ----

    private static final int WARM_UP_STEPS = 400;
    private static final int MEASURED_STEPS = 100;
    private static final int MAX_READINGS = 100;
    private static final int MAX_BYTES_PER_OPERATION = 4096;

    /** Returns the bytes that a step allocates on the heap per operation, using one thread. */
    private static double heapBytesPerOperation(DType type) {
        return Threads.with(1, () -> {
            try (Scope scope = Scope.open();
                    Sequential net = network(1);
                    Optimizer adam = Adam.over(net).build();
                    TrainingStep step = step(type, net, Loss.crossEntropy(), adam)) {
                Tensor x = Generator.seeded(1).normal(16, 1, 8, 8);
                Tensor y = Generator.seeded(2).integers(0, 3, 16);
                for (int i = 0; i < WARM_UP_STEPS; i++) {
                    step.run(x, y);
                }
                var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
                AtomicLong operations = new AtomicLong();
                Recorder.with((op, in, out) -> operations.incrementAndGet(), () -> step.run(x, y));
                long allocations = Device.cpu().memory().allocations();
                long live = Device.cpu().memory().live();
                double minimum = Double.POSITIVE_INFINITY;
                // The minimum of several readings, because code that is not compiled yet allocates more objects.
                for (int i = 0; i < MAX_READINGS && minimum >= MAX_BYTES_PER_OPERATION; i++) {
                    long before = threads.getCurrentThreadAllocatedBytes();
                    for (int k = 0; k < MEASURED_STEPS; k++) {
                        step.run(x, y);
                    }
                    double bytes = threads.getCurrentThreadAllocatedBytes() - before;
                    minimum = Math.min(minimum, bytes / MEASURED_STEPS / operations.get());
                }
                assertThat(Device.cpu().memory().allocations()).isEqualTo(allocations);
                assertThat(Device.cpu().memory().live()).isLessThanOrEqualTo(live);
                return minimum;
            }
        });
    }

    /**
     * Mixed precision has more operations, for casts. Each operation allocates a few small objects, whose size depends
     * on the compilation; tensors are not on the heap and would be 32 KiB and more.
     */
    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16", "F16"})
    void allocatesNoMemoryForTensorsInASteadyStep(DType type) {
        assertThat(heapBytesPerOperation(type)).isLessThan(MAX_BYTES_PER_OPERATION);
    }
}
