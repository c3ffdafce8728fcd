package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Share;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import dev.starling.tensor.program.Explanation;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Compares captured steps with steps that are not captured: all weights, state and losses must be equal bit for bit.
 */
@Timeout(120)
class CapturedStepTest {
    private static final int CLASSES = 5;

    private static Layer mlp() {
        Generator g = Generator.seeded(1);
        return Sequential.of(Linear.of(12, 33, g), new Relu(), Linear.of(33, CLASSES, g));
    }

    private static Layer cnn() {
        Generator g = Generator.seeded(2);
        return Sequential.of(Conv2d.of(3, 8, 3).padding(1).build(g), BatchNorm.of(8), new Relu(), MaxPool2d.of(2),
                new Dropout(0.3), Conv2d.of(8, 6, 3).build(g), BatchNorm.of(6), new Relu(), new Flatten(),
                new Dropout(0.5), Linear.of(6 * 2 * 2, CLASSES, g));
    }

    private static Layer transformer() {
        Generator g = Generator.seeded(3);
        return Sequential.of(Residual.of(Sequential.of(LayerNorm.of(16), MultiHeadAttention.of(16, 4, g).causal()
                .dropout(0.1))), Residual.of(Sequential.of(LayerNorm.of(16), Linear.of(16, 32, g), new Gelu(true),
                Linear.of(32, 16, g), new Dropout(0.2))), new Flatten(), Linear.of(6 * 16, CLASSES, g));
    }

    private static Layer recurrent() {
        Generator g = Generator.seeded(4);
        return Sequential.of(Lstm.of(4, 9).bidirectional().build(g), Gru.of(18, 6).layers(2).dropout(0.2).last()
                .build(g), Linear.of(6, CLASSES, g));
    }

    /** The state at the end of a run. */
    private record Run(List<Double> losses, Map<String, Parameter> state, Optimizer optimizer, Generator generator) { }

    private static Run train(boolean captured, Precision precision, Supplier<Layer> models,
            Function<Layer, Optimizer> optimizers, int steps, long... shape) {
        Layer model = models.get();
        Optimizer optimizer = optimizers.apply(model);
        Generator draws = Generator.seeded(5);
        Generator data = Generator.seeded(6);
        List<Double> losses = new ArrayList<>();
        try (TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, draws)) {
            step.precision(precision);
            if (captured) {
                step.captured();
            }
            for (int i = 0; i < steps; i++) {
                try (Scope scope = Scope.open()) {
                    // Some batches are smaller, as at the end of an epoch.
                    long[] dims = shape.clone();
                    dims[0] = i % 9 == 8 ? shape[0] - 1 : shape[0];
                    losses.add(step.run(data.normal(dims), data.integers(0, CLASSES, dims[0])));
                }
            }
        }
        return new Run(losses, model.state(), optimizer, draws);
    }

    private static void compare(Supplier<Layer> models, Function<Layer, Optimizer> optimizers, long... shape) {
        compare(Precision.of(DType.F32), models, optimizers, shape);
    }

    private static void compare(Precision precision, Supplier<Layer> models, Function<Layer, Optimizer> optimizers,
            long... shape) {
        Run eager = train(false, precision, models, optimizers, 50, shape);
        Run captured = train(true, precision, models, optimizers, 50, shape);
        assertThat(captured.losses).isEqualTo(eager.losses);
        assertThat(captured.generator.state()).isEqualTo(eager.generator.state());
        assertSame(captured.state, eager.state);
        assertSame(captured.optimizer.state(), eager.optimizer.state());
        eager.optimizer.close();
        captured.optimizer.close();
    }

    private static void assertSame(Map<String, Parameter> actual, Map<String, Parameter> expected) {
        assertThat(actual.keySet()).isEqualTo(expected.keySet());
        actual.forEach((path, p) -> assertThat(p.value().toFloats()).as(path)
                .isEqualTo(expected.get(path).value().toFloats()));
    }

    @Test
    void explainsWhatAStepReplays() {
        Layer model = mlp();
        Generator data = Generator.seeded(6);
        try (Scope scope = Scope.open(); TrainingStep step = new TrainingStep(model, Loss.crossEntropy(),
                Adam.over(model).build(), data).captured()) {
            assertThat(step.explain()).isEmpty();
            for (int i = 0; i < 3; i++) {
                step.run(data.normal(8, 12), data.integers(0, CLASSES, 8));
            }
            Explanation all = step.explain().orElseThrow();
            assertThat(all.after()).extracting(Explanation.Line::operation)
                    .containsSubsequence("linear with relu", "linear", "linearWeightGradient");
            // Two products forward, two of weights and one of inputs backward.
            assertThat(all.after().stream().mapToLong(Explanation.Line::flops).sum())
                    .isBetween(2L * 8 * (2 * 12 * 33 + 3 * 33 * CLASSES), 2L * 8 * 3 * (12 * 33 + 33 * CLASSES));
        }
    }

    @Test
    void trainsAnMlpWithMomentum() {
        compare(CapturedStepTest::mlp, m -> Sgd.over(m).rate(Schedule.decay(0.1, 7, 0.5)).momentum(0.9).build(), 7, 12);
    }

    @Test
    void trainsACnnWithDropoutAndRunningStatistics() {
        compare(CapturedStepTest::cnn, m -> Adam.over(m).rate(Schedule.cosine(0.01, 0.001, 50)).build(), 6, 3, 8, 8);
    }

    @Test
    void trainsAnAttentionBlockWithClippedGradients() {
        compare(CapturedStepTest::transformer, m -> ClipByNorm.of(AdamW.over(m)
                .rate(Schedule.constant(0.01).warmUp(10)).build(), 0.5), 4, 6, 16);
    }

    /** Counts the calls of its code, which a replay does not make. */
    private record Counting(Layer inner, AtomicInteger calls) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            calls.incrementAndGet();
            return inner.forward(x);
        }
    }

    @Test
    void keepsTheProgramsOfFourShapes() {
        List<List<Double>> losses = new ArrayList<>();
        AtomicInteger calls = new AtomicInteger();
        for (boolean captured : new boolean[] {false, true}) {
            try (Scope scope = Scope.open(); Layer model = new Counting(mlp(), calls);
                    Optimizer sgd = Sgd.over(model).rate(0.1).build();
                    TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), sgd, Generator.seeded(1))) {
                if (captured) {
                    step.captured();
                }
                calls.set(0);
                Generator data = Generator.seeded(6);
                List<Double> each = new ArrayList<>();
                for (int rows : new int[] {1, 1, 2, 2, 3, 3, 4, 4, 2, 1, 3, 4, 1, 2, 5, 5, 5, 1, 2, 4, 3, 3}) {
                    each.add(step.run(data.normal(rows, 12), data.integers(0, CLASSES, rows)));
                }
                losses.add(each);
            }
        }
        assertThat(losses.get(1)).isEqualTo(losses.get(0));
        // Two calls for each of five shapes; then the shape that was not used for longest, 3, runs as if it were new.
        assertThat(calls).hasValue(12);
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16", "F16"})
    void trainsARecurrentNetwork(DType type) {
        compare(Precision.of(type), CapturedStepTest::recurrent, m -> ClipByNorm.of(Adam.over(m).rate(0.01).build(),
                1), 5, 7, 4);
    }

    @Test
    void trainsInMixedPrecision() {
        for (Precision precision : new Precision[] {Precision.of(DType.BF16),
            Precision.of(DType.F16)}) {
            compare(precision, CapturedStepTest::cnn, m -> Adam.over(m).rate(0.01).build(), 6, 3, 8, 8);
        }
    }

    @Test
    void replaysStepsInConstantMemory() {
        Layer model = cnn();
        Generator data = Generator.seeded(6);
        try (Optimizer optimizer = Adam.over(model).build(); Scope scope = Scope.open();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .captured()) {
            Tensor x = data.normal(6, 3, 8, 8);
            Tensor target = data.integers(0, CLASSES, 6);
            for (int i = 0; i < 5; i++) {
                step.run(x, target);
            }
            long live = Device.cpu().memory().live();
            long allocations = Device.cpu().memory().allocations();
            for (int i = 0; i < 20; i++) {
                step.run(x, target);
            }
            // Tensors of other tests may be freed meanwhile.
            assertThat(Device.cpu().memory().live()).isLessThanOrEqualTo(live);
            assertThat(Device.cpu().memory().allocations()).isEqualTo(allocations);
        }
    }

    @Test
    void leavesTheWeightsUnchangedIfTheLossIsNotFinite() {
        Layer model = Sequential.of(Linear.of(12, CLASSES, Generator.seeded(1)));
        Generator data = Generator.seeded(6);
        try (Optimizer optimizer = Adam.over(model).build(); Scope scope = Scope.open();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .captured()) {
            Tensor target = data.integers(0, CLASSES, 6);
            for (int i = 0; i < 6; i++) {
                step.run(data.normal(6, 12), target);
                Map<String, float[]> before = weights(model);
                long steps = optimizer.steps();
                assertThatThrownBy(() -> step.run(Tensor.full(DType.F32, Double.NaN, 6, 12),
                        target)).isInstanceOf(TensorException.class).hasMessageContaining("the loss is NaN");
                weights(model).forEach((path, w) -> assertThat(w).isEqualTo(before.get(path)));
                assertThat(optimizer.steps()).isEqualTo(steps);
            }
        }
    }

    private static Map<String, float[]> weights(Layer model) {
        Map<String, float[]> all = new LinkedHashMap<>();
        model.state().forEach((path, p) -> all.put(path, p.value().toFloats()));
        return all;
    }

    @Test
    void capturesAgainAfterParametersWereReplaced() {
        Layer model = mlp();
        Generator data = Generator.seeded(6);
        BatchNorm outside = BatchNorm.of(12);
        Layer both = Sequential.of(outside, model);
        try (Optimizer optimizer = Sgd.over(model).build(); Scope scope = Scope.open();
                TrainingStep step = new TrainingStep(both, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .captured()) {
            for (int i = 0; i < 8; i++) {
                if (i == 4) {
                    outside.parameters().values().forEach(p -> p.to(DType.F64));
                    outside.state().values().forEach(p -> p.to(DType.F64));
                    outside.state().values().forEach(p -> p.to(DType.F32));
                }
                assertThat(step.run(data.normal(6, 12), data.integers(0, CLASSES, 6))).isFinite();
            }
        }
    }

    /** Uses another buffer for small batches than for large ones. */
    private record Scaled(Layer inner, Parameter small, Parameter large) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return inner.forward(x.mul((x.size(0) < 5 ? small : large).value()));
        }
    }

    @Test
    void capturesAgainIfOnlyTheProgramOfAnotherShapeUsedAReplacedParameter() {
        List<List<Double>> losses = new ArrayList<>();
        for (boolean captured : new boolean[] {false, true}) {
            try (Scope scope = Scope.open(); Scaled model = new Scaled(mlp(),
                    Parameter.buffer(Tensor.full(DType.F32, 2, 12)), Parameter.buffer(Tensor.full(DType.F32, 3, 12)));
                    Optimizer sgd = Sgd.over(model).rate(0.1).build();
                    TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), sgd, Generator.seeded(1))) {
                if (captured) {
                    step.captured();
                }
                Generator data = Generator.seeded(6);
                List<Double> each = new ArrayList<>();
                for (int rows : new int[] {6, 6, 4, 4, 4, 6, 4, 6, 6, 6, 4, 4, 4}) {
                    if (each.size() == 6) {
                        model.small.to(DType.F64);
                        model.small.to(DType.F32);
                    }
                    each.add(step.run(data.normal(rows, 12), data.integers(0, CLASSES, rows)));
                }
                losses.add(each);
            }
        }
        assertThat(losses.get(1)).isEqualTo(losses.get(0));
    }

    @Test
    void refusesAModelThatReadsElementsAndGivesTheReason() {
        Layer model = mlp();
        Layer reading = new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return model.forward(x.mul(1 / x.abs().sum().item()));
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.layer("model", model);
            }
        };
        try (Optimizer optimizer = Sgd.over(reading).build(); Scope scope = Scope.open();
                TrainingStep step = new TrainingStep(reading, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .captured()) {
            Tensor x = Generator.seeded(6).normal(6, 12);
            Tensor target = Generator.seeded(6).integers(0, CLASSES, 6);
            step.run(x, target);
            assertThatThrownBy(() -> step.run(x, target)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("capture").hasMessageContaining("read");
        }
    }

    /** Records the calls of a strategy, and changes gradients as a strategy that averages them would. */
    private static final class RecordingStrategy extends SingleProcess {
        private final List<String> calls = new ArrayList<>();

        @Override
        public void beforeForward(Tensor input) {
            calls.add("forward");
        }

        @Override
        public void gradient(int index, Tensor gradient) {
            calls.add(index + " " + gradient.square().sum().item());
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            for (int i = 0; i < gradients.length; i++) {
                gradients[i] = gradients[i].mul(0.5);
            }
            calls.add("step");
            return Step.LOCAL;
        }

        @Override
        public boolean sendsGradients() {
            return true;
        }

        @Override
        public Share share() {
            return Share.whole();
        }
    }

    @Test
    void callsStrategiesWithTheSameGradientsInTheSameOrder() {
        List<List<String>> calls = new ArrayList<>();
        for (boolean captured : new boolean[] {false, true}) {
            Layer model = cnn();
            RecordingStrategy strategy = new RecordingStrategy();
            try (Optimizer optimizer = Adam.over(model).build(); Scope scope = Scope.open();
                    TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(5),
                            strategy)) {
                if (captured) {
                    step.captured();
                }
                Generator data = Generator.seeded(6);
                for (int i = 0; i < 6; i++) {
                    step.run(data.normal(6, 3, 8, 8), data.integers(0, CLASSES, 6));
                }
            }
            calls.add(strategy.calls);
        }
        assertThat(calls.get(1)).isEqualTo(calls.get(0));
    }

    /** Epochs end with a smaller batch, and each step has a random stream of its own. */
    @Test
    void trainsTheSameInATrainer() {
        List<Object> results = new ArrayList<>();
        for (boolean captured : new boolean[] {false, true}) {
            Layer model = cnn();
            Generator g = Generator.seeded(8);
            try (Optimizer optimizer = Adam.over(model).build(); Scope scope = Scope.open();
                    DataLoader data = DataLoader.of(TensorDataset.of(g.normal(44, 3, 8, 8),
                            g.integers(0, CLASSES, 44))).batchSize(8).shuffle().seed(3).build()) {
                Trainer.Builder builder = Trainer.of(model, Loss.crossEntropy(), optimizer).data(data).epochs(3)
                        .seed(4).metrics(Metric.accuracy());
                if (captured) {
                    builder.captured();
                    assertThatThrownBy(() -> builder.accumulate(2).build())
                            .isInstanceOf(TensorException.class).hasMessageContaining("accumulate");
                    builder.accumulate(1);
                }
                List<Object> result = new ArrayList<>();
                builder.build().run().epochs().forEach(epoch -> result.add(epoch.training().toString()));
                weights(model).forEach((path, w) -> result.add(Arrays.toString(w)));
                results.add(result);
            }
        }
        assertThat(results.get(1)).isEqualTo(results.get(0));
    }

    /** Objects of a step: of the optimiser some for each parameter, of the forward and backward pass hardly any. */
    @Test
    void leavesHardlyAnyObjectsOnTheHeap() {
        Generator g = Generator.seeded(3);
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        Threads.with(1, () -> {
            try (Scope scope = Scope.open();
                    Layer net = Sequential.of(Linear.of(16, 32, g), new Relu(), Linear.of(32, 16, g),
                            Residual.of(Sequential.of(LayerNorm.of(16), MultiHeadAttention.of(16, 4, g).causal())),
                            new Flatten(), Linear.of(6 * 16, CLASSES, g));
                    Optimizer adam = Adam.over(net).build();
                    TrainingStep step = new TrainingStep(net, Loss.crossEntropy(), adam, g).captured()) {
                Tensor x = Generator.seeded(1).normal(4, 6, 16);
                Tensor y = Generator.seeded(2).integers(0, CLASSES, 4);
                int bound = 500 + 400 * net.parameters().size();
                long least = Long.MAX_VALUE;
                // The minimum of several readings, because code that is not compiled yet allocates more objects.
                for (int i = 0; i < 100 && least >= bound; i++) {
                    long before = threads.getCurrentThreadAllocatedBytes();
                    for (int k = 0; k < 100; k++) {
                        step.run(x, y);
                    }
                    least = Math.min(least, (threads.getCurrentThreadAllocatedBytes() - before) / 100);
                }
                assertThat(least).isLessThan(bound);
                return null;
            }
        });
    }
}
