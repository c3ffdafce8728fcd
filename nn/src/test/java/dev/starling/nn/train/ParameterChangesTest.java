package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.FarProvider;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Parameters that are replaced, frozen or unfrozen between steps, and gradients that must not change a weight. */
@Timeout(60)
class ParameterChangesTest {
    private static final int FROZEN = 3;
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Sequential mlp() {
        Generator g = Generator.seeded(1);
        return Sequential.of(Linear.of(6, 9, g), new Relu(), Linear.of(9, 3, g));
    }

    /** Returns all bits of a model and its optimiser after a run in which {@code changes} are made before each step. */
    private static Map<String, double[]> train(Function<Layer, Optimizer> optimizers, boolean captured, DType precision,
            int steps, Function<Sequential, Consumer<Integer>> changes) {
        Map<String, double[]> bits = new LinkedHashMap<>();
        try (Scope run = Scope.open("run"); Sequential net = mlp(); Optimizer optimizer = optimizers.apply(net);
                TrainingStep step = new TrainingStep(net, Loss.crossEntropy(), optimizer, Generator.seeded(2))) {
            step.precision(Precision.of(precision));
            if (captured) {
                step.captured();
            }
            Consumer<Integer> before = changes.apply(net);
            Tensor x = Generator.seeded(3).normal(8, 6);
            Tensor y = Generator.seeded(4).integers(0, 3, 8);
            for (int i = 0; i < steps; i++) {
                before.accept(i);
                step.run(x.to(net.state().get("2.weight").value().dtype()), y);
            }
            net.state().forEach((path, p) -> bits.put(path, p.value().toDoubles()));
            optimizer.state().forEach((path, p) -> bits.put("state " + path, p.value().toDoubles()));
        }
        return bits;
    }

    private static void assertSameBits(Map<String, double[]> actual, Map<String, double[]> expected) {
        assertThat(actual.keySet()).isEqualTo(expected.keySet());
        expected.forEach((path, bits) -> assertThat(actual.get(path)).as(path).isEqualTo(bits));
    }

    private static Optimizer adamW(Layer net) {
        return AdamW.over(net).rate(0.05).weightDecay(0.1).build();
    }

    private static Optimizer momentum(Layer net) {
        return Sgd.over(net).rate(0.1).momentum(0.9).weightDecay(0.1).build();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void trainsAReplacedParameterLikeTheOriginal(boolean captured) {
        for (DType precision : new DType[] {DType.F32, DType.BF16, DType.F16}) {
            Map<String, double[]> expected = train(ParameterChangesTest::adamW, captured, precision, 8,
                    net -> i -> { });
            Map<String, double[]> actual = train(ParameterChangesTest::adamW, captured, precision, 8, net -> i -> {
                if (i == 1 || i == 4) {
                    net.state().get("2.weight").to(DType.F64);
                    net.state().get("2.weight").to(DType.F32);
                    net.state().get("0.bias").to(Device.reference());
                    net.state().get("0.bias").to(Device.cpu());
                }
            });
            assertSameBits(actual, expected);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void keepsAFrozenParameterAndItsState(boolean captured) {
        for (Function<Layer, Optimizer> optimizer : List.<Function<Layer, Optimizer>>of(
                ParameterChangesTest::adamW, ParameterChangesTest::momentum)) {
            Map<String, double[]> before = train(optimizer, captured, DType.F32, FROZEN, net -> i -> { });
            Map<String, double[]> after = train(optimizer, captured, DType.F32, FROZEN + 4, net -> i -> {
                if (i == FROZEN) {
                    net.state().get("2.weight").freeze();
                }
            });
            after.forEach((path, bits) -> {
                if (path.contains("2.weight")) {
                    assertThat(bits).as(path).isEqualTo(before.get(path));
                } else {
                    assertThat(bits).as(path).isNotEqualTo(before.get(path));
                }
            });
            Map<String, double[]> thawed = train(optimizer, captured, DType.F32, FROZEN + 5, net -> i -> {
                if (i == FROZEN) {
                    net.state().get("2.weight").freeze();
                } else if (i == FROZEN + 4) {
                    net.state().get("2.weight").unfreeze();
                }
            });
            thawed.forEach((path, bits) -> assertThat(bits).as(path).isNotEqualTo(before.get(path)));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void trainsAParameterThatWasFrozenBeforeTheOptimizerWasBuilt(boolean captured) {
        Map<String, double[]> untrained = train(ParameterChangesTest::adamW, captured, DType.F32, 0, net -> i -> { });
        Function<Layer, Optimizer> optimizer = net -> {
            net.state().get("0.weight").freeze();
            return adamW(net);
        };
        Map<String, double[]> frozen = train(optimizer, captured, DType.F32, 4, net -> i -> { });
        assertThat(frozen.get("0.weight")).isEqualTo(untrained.get("0.weight"));
        assertThat(frozen.get("state 0.weight.mean")).containsOnly(0);
        Map<String, double[]> trained = train(optimizer, captured, DType.F32, 4,
                net -> i -> net.state().get("0.weight").unfreeze());
        assertSameBits(trained, train(ParameterChangesTest::adamW, captured, DType.F32, 4, net -> i -> { }));
    }

    @Test
    void convertsTheStateOfAParameterToItsNewType() {
        Map<String, double[]> actual = train(ParameterChangesTest::adamW, false, DType.F32, 6, net -> i -> {
            if (i == 3) {
                net.state().values().forEach(p -> p.to(DType.F64));
            }
        });
        Map<String, double[]> expected = train(ParameterChangesTest::adamW, false, DType.F32, 6, net -> i -> { });
        expected.forEach((path, values) -> {
            for (int k = 0; k < values.length; k++) {
                assertThat(actual.get(path)[k]).as(path).isCloseTo(values[k],
                        within(1e-4));
            }
            assertThat(actual.get(path)).as(path + " in f64").isNotEqualTo(values);
        });
    }

    @Test
    void refusesAStepIfAllParametersAreFrozen() {
        assertThatThrownBy(() -> train(ParameterChangesTest::adamW, false, DType.F32, 1,
                net -> i -> net.state().values().forEach(Parameter::freeze)))
                .isInstanceOf(TensorException.class).hasMessageContaining("all parameters").hasMessageContaining(
                        "unfreeze");
        assertThatThrownBy(() -> mlp().state().get("0.bias").to(DType.I32)).isInstanceOf(TensorException.class);
    }

    @Test
    void keepsNoStateOfParametersThatAreNotSelected() {
        Function<Layer, Optimizer> optimizer = net -> Adam.over(net).only(path -> path.startsWith("2.")).build();
        Map<String, double[]> trained = train(optimizer, false, DType.F32, 2, net -> i -> { });
        assertThat(trained).containsKey("state 2.weight.mean").doesNotContainKey("state 0.weight.mean");
        assertThat(trained.get("0.weight")).isEqualTo(train(optimizer, false, DType.F32, 0,
                n -> i -> { }).get("0.weight"));
        assertThatThrownBy(() -> Sgd.over(mlp()).only(path -> false).build()).isInstanceOf(TensorException.class)
                .hasMessageContaining("only(..)");
    }

    @Test
    void ignoresFrozenParametersInTheNorm() {
        try (Sequential net = mlp(); ClipByNorm clip = ClipByNorm.of(Sgd.over(net).build(), 1)) {
            net.state().forEach((path, p) -> {
                if (!path.equals("2.bias")) {
                    p.freeze();
                }
            });
            clip.step(Tensor.ones(9, 6), Tensor.ones(9), Tensor.ones(3, 9), Tensor.of(new float[] {3, 0, 4}, 3));
            assertThat(clip.norm()).isEqualTo(5);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void resumesARunWithFrozenParametersBitForBit(boolean frozenInSecondHalf, @TempDir Path directory) {
        try (Sequential whole = mlp(); Sequential halves = mlp()) {
            runTrainer(whole, directory.resolve("a"), 1, frozenInSecondHalf);
            runTrainer(whole, directory.resolve("a"), 2, frozenInSecondHalf);
            try (Sequential first = mlp()) {
                runTrainer(first, directory.resolve("b"), 1, frozenInSecondHalf);
            }
            runTrainer(halves, directory.resolve("b"), 2, frozenInSecondHalf);
            whole.state().forEach((path, p) -> assertThat(halves.state().get(path).value().toFloats()).as(path)
                    .isEqualTo(p.value().toFloats()));
        }
    }

    private static void runTrainer(Sequential net, Path directory, int epochs, boolean frozenInSecondHalf) {
        Parameter first = net.state().get("0.weight");
        if (epochs == 2 == frozenInSecondHalf) {
            first.freeze();
        } else {
            first.unfreeze();
        }
        try (Scope run = Scope.open("run"); Optimizer adam = adamW(net); DataLoader data = DataLoader.of(
                TensorDataset.of(Generator.seeded(3).normal(24, 6), Generator.seeded(4).integers(0, 3, 24)))
                .batchSize(8).seed(5).build()) {
            Trainer.of(net, Loss.crossEntropy(), adam).data(data).epochs(epochs).seed(6).checkpoints(directory)
                    .resume().captured().build().run();
        }
    }

    // ---- gradients that are not finite ----

    /** A loss whose value at 0 is 0 and whose gradient there is 0/0. */
    private static Tensor root(Tensor y, Tensor target) {
        return y.sub(target).sqrt().mean();
    }

    private static Function<Layer, Optimizer> clipped(Function<Layer, Optimizer> optimizer) {
        return net -> ClipByNorm.of(optimizer.apply(net), 1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"cpu", "cpu captured", "cpu clipped", "far", "far clipped", "cpu f64"})
    void namesAGradientThatIsNotFiniteAndChangesNothing(String where) {
        Device device = where.startsWith("far") ? FarProvider.device() : Device.cpu();
        Function<Layer, Optimizer> optimizer = where.endsWith("clipped") ? clipped(ParameterChangesTest::adamW)
                : ParameterChangesTest::adamW;
        try (Linear net = Linear.of(2, 1, Generator.seeded(1))) {
            net.to(device);
            net.to(where.endsWith("f64") ? DType.F64 : DType.F32);
            net.state().get("bias").set(Tensor.zeros(1));
            net.state().get("bias").freeze();
            try (Optimizer adam = optimizer.apply(net); TrainingStep step = new TrainingStep(net,
                    ParameterChangesTest::root, adam, Generator.seeded(1))) {
                if (where.endsWith("captured")) {
                    step.captured();
                }
                DType type = net.weight().value().dtype();
                Tensor good = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2).to(type);
                Tensor bad = Tensor.of(new float[] {1, 2, 0, 0}, 2, 2).to(type);
                Tensor zeros = Tensor.zeros(2, 1).to(type);
                net.state().get("weight").set(Tensor.ones(1, 2));
                for (int i = 0; i < 4; i++) {
                    step.run(good, zeros);
                }
                double[] weight = net.state().get("weight").value().toDoubles();
                double[] mean = adam.state().get("weight.mean").value().toDoubles();
                long steps = adam.steps();
                assertThatThrownBy(() -> step.run(bad, zeros)).isInstanceOf(TensorException.class)
                        .hasMessageContaining("weight").hasMessageContaining("infinite or NaN")
                        .satisfies(e -> assertThat(((TensorException) e).problem())
                                .isEqualTo(TensorException.Problem.ANOMALY));
                assertThat(net.state().get("weight").value().toDoubles()).isEqualTo(weight);
                assertThat(adam.state().get("weight.mean").value().toDoubles()).isEqualTo(mean);
                assertThat(adam.steps()).isEqualTo(steps);
                step.run(good, zeros);
                assertThat(net.state().get("weight").value().toDoubles()).isNotEqualTo(weight);
            }
        }
    }

    @Test
    void findsASingleElementThatIsNotFinite() {
        for (DType dtype : new DType[] {DType.F64, DType.F32, DType.BF16, DType.F16}) {
            for (int n : new int[] {1, 2, 3, 5, 31, 64, 333}) {
                for (double bad : new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
                    for (int at = 0; at < n; at += Math.max(1, n / 7)) {
                        double[] values = new double[n];
                        Arrays.fill(values, dtype == DType.F16 ? -65504 : -3e38);
                        try (Tensor fine = Tensor.of(values, n).to(dtype)) {
                            assertThat(Device.cpu().backend().isFinite(fine)).isTrue();
                            values[at] = bad;
                            Tensor x = Tensor.of(values, n).to(dtype);
                            assertThat(Device.cpu().backend().isFinite(x)).as(dtype + " " + n + " " + at).isFalse();
                            assertThat(Device.cpu().backend().isFinite(x.expand(3, n).t())).isFalse();
                        }
                    }
                }
            }
        }
        try (Tensor large = Tensor.zeros(1_000_003)) {
            assertThat(Device.cpu().backend().isFinite(large)).isTrue();
            large.segment().setAtIndex(ValueLayout.JAVA_FLOAT, 1_000_002, Float.NaN);
            assertThat(Device.cpu().backend().isFinite(large)).isFalse();
        }
    }
}
