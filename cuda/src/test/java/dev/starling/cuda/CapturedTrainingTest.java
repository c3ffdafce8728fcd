package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.AvgPool2d;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** Training with captured steps, compared with eager training on the same GPU; on an emulated one bit for bit. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
@ParameterizedClass
@MethodSource("dev.starling.cuda.AnyGpu#devices")
class CapturedTrainingTest {
    private final Device gpu;
    private static final int STEPS = 8;
    private static final int CLASSES = 4;

    CapturedTrainingTest(Device gpu) {
        this.gpu = gpu;
    }

    private static Layer mlp() {
        Generator g = Generator.seeded(1);
        return Sequential.of(Linear.of(6, 9, g), new Relu(), new Dropout(0.2), Linear.of(9, CLASSES, g));
    }

    private static Layer cnn() {
        Generator g = Generator.seeded(2);
        return Sequential.of(Conv2d.of(2, 4, 3).padding(1).build(g), BatchNorm.of(4), new Relu(), new Dropout(0.3),
                new Flatten(), Linear.of(4 * 4 * 4, CLASSES, g));
    }

    private static Layer residual() {
        Generator g = Generator.seeded(3);
        return Sequential.of(Conv2d.of(2, 8, 3).padding(1).withoutBias().build(g), BatchNorm.of(8), new Relu(),
                Residual.of(Sequential.of(Conv2d.of(8, 8, 3).padding(1).withoutBias().build(g), BatchNorm.of(8),
                new Relu())), AvgPool2d.of(2), new Flatten(), Linear.of(32, CLASSES, g));
    }

    private static Layer transformer() {
        Generator g = Generator.seeded(4);
        return Sequential.of(Residual.of(Sequential.of(LayerNorm.of(16), MultiHeadAttention.of(16, 2, g).causal())),
                Residual.of(Sequential.of(LayerNorm.of(16), Linear.of(16, 32, g), new Gelu(true),
                Linear.of(32, 16, g))), new Flatten(), Linear.of(5 * 16, CLASSES, g));
    }

    private static Layer recurrent() {
        Generator g = Generator.seeded(5);
        return Sequential.of(Lstm.of(3, 8).build(g), Gru.of(8, 8).last().build(g), Linear.of(8, CLASSES, g));
    }

    /** Returns the losses, then all weights, buffers and optimiser state. */
    private List<Double> train(boolean captured, DType type, Supplier<Layer> models, long... shape) {
        List<Double> result = new ArrayList<>();
        Layer model = Device.with(gpu, models::get);
        try (Optimizer optimizer = Adam.over(model).rate(Schedule.cosine(0.01, 0.001, STEPS)).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .precision(Precision.of(type))) {
            if (captured) {
                step.captured();
            }
            Generator data = Generator.seeded(6);
            for (int i = 0; i < STEPS; i++) {
                try (Scope scope = Scope.open()) {
                    result.add(step.run(data.normal(shape), data.integers(0, CLASSES, shape[0])));
                }
            }
            model.state().forEach((path, p) -> result.addAll(elements(p.value())));
            optimizer.state().forEach((path, p) -> result.addAll(elements(p.value())));
        }
        return result;
    }

    private static List<Double> elements(Tensor t) {
        List<Double> all = new ArrayList<>();
        try (Scope scope = Scope.open()) {
            for (double x : t.toDoubles()) {
                all.add(x);
            }
        }
        return all;
    }

    private void compare(DType type, Supplier<Layer> models, long... shape) {
        List<Double> eager = train(false, type, models, shape);
        long before = AnyGpu.graphLaunches();
        long computed = AnyGpu.computedByLibraries();
        List<Double> graphs = train(true, type, models, shape);
        if (gpu.type().equals("cuda")) {
            assertThat(graphs).hasSameSizeAs(eager);
            // In 16 bits, a rounding may change the direction of Adam's step; only losses are compared.
            boolean wide = type == DType.F32;
            for (int i = 0; i < (wide ? graphs.size() : STEPS); i++) {
                double tolerance = (wide ? 1e-3 : 5e-2) * (1 + Math.abs(eager.get(i)));
                assertThat(graphs.get(i)).isCloseTo(eager.get(i), within(tolerance));
            }
            return;
        }
        if (gpu.index() == EmulatedProvider.WITH_LIBRARIES) {
            assertThat(AnyGpu.computedByLibraries() - computed).isGreaterThan(STEPS);
            assertThat(FakeLibraries.firstMisuse()).isEmpty();
        }
        assertThat(graphs).isEqualTo(eager);
        // The first step ran eagerly, the second was captured, the third planned memory.
        assertThat(AnyGpu.graphLaunches() - before).isEqualTo(STEPS - 3);
    }

    @Test
    void trainsAnMlpWithDropout() {
        compare(DType.F32, CapturedTrainingTest::mlp, 5, 6);
    }

    @Test
    void trainsACnnWithDropoutAndRunningStatistics() {
        compare(DType.F32, CapturedTrainingTest::cnn, 3, 2, 4, 4);
    }

    @Test
    void trainsAResidualNetworkInSixteenBits() {
        compare(DType.BF16, CapturedTrainingTest::residual, 3, 2, 4, 4);
    }

    @Test
    void trainsATransformerInSixteenBits() {
        compare(DType.BF16, CapturedTrainingTest::transformer, 3, 5, 16);
    }

    @Test
    void trainsRecurrentLayers() {
        compare(DType.F32, CapturedTrainingTest::recurrent, 3, 6, 3);
    }

    private record Input(Tensor ids, Tensor numbers) { }

    private record Output(Tensor price, Tensor kind) { }

    private record House(Embedding towns, Linear trunk, Linear price, Linear kind) implements Model<Input, Output> {
        static House of(Generator g) {
            return new House(Embedding.of(5, 3, g), Linear.of(5, 8, g), Linear.of(8, 1, g), Linear.of(8, 3, g));
        }

        @Override
        public Output forward(Input in) {
            Tensor x = trunk.apply(Tensor.concat(1, towns.apply(in.ids()), in.numbers())).tanh();
            return new Output(price.apply(x).squeeze(-1), kind.apply(x));
        }
    }

    /** Trains on batches of several fields, which a loader uploads; returns losses and metrics of each epoch. */
    private static List<Double> fit(Device device, boolean captured) {
        Generator g = Generator.seeded(3);
        List<Double> result = new ArrayList<>();
        try (Scope scope = Scope.open("test")) {
            Tensor ids = g.integers(0, 5, 48);
            Tensor numbers = g.normal(48, 2);
            TensorDataset houses = TensorDataset.of(new Input(ids, numbers), new Output(numbers.sum(1),
                    ids.gt(1).to(DType.I64)));
            House model = Device.with(device, () -> House.of(Generator.seeded(1)));
            try (Optimizer adam = Adam.over(model).rate(0.02).build();
                    DataLoader data = DataLoader.of(houses).batchSize(8).shuffle().build()) {
                Trainer.Builder trainer = Trainer.of(model, Objective.of("price", Loss.meanSquared()).and("kind",
                        Loss.crossEntropy(), 0.5), adam).data(data).epochs(2).metrics(Metric.accuracy().on("kind"));
                for (EpochReport each : (captured ? trainer.captured() : trainer).build().run().epochs()) {
                    result.add(each.training().loss());
                    result.addAll(each.training().metrics().values());
                }
            }
            model.close();
        }
        return result;
    }

    @Test
    @Tag("stress")
    void trainsAModelWithSeveralInputsAndLosses() {
        long before = AnyGpu.graphLaunches();
        List<Double> eager = fit(gpu, false);
        List<Double> graphs = fit(gpu, true);
        List<Double> host = fit(Device.cpu(), false);
        if (!gpu.type().equals("cuda")) {
            assertThat(AnyGpu.graphLaunches()).isGreaterThan(before);
        }
        assertThat(eager).hasSize(8);
        for (int i = 0; i < eager.size(); i++) {
            assertThat(graphs.get(i)).isCloseTo(eager.get(i), within(1e-3));
            assertThat(eager.get(i)).isCloseTo(host.get(i), within(1e-3));
        }
    }

    @Test
    void leavesTheWeightsAfterALossThatIsNotFinite() {
        Layer model = Device.with(gpu, () -> Sequential.of(Linear.of(6, CLASSES, Generator.seeded(1))));
        try (Optimizer optimizer = Adam.over(model).build(); Scope scope = Scope.open();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(5))
                        .captured()) {
            Tensor x = Generator.seeded(6).normal(3, 6);
            Tensor target = Generator.seeded(7).integers(0, CLASSES, 3);
            long runs = AnyGpu.graphLaunches();
            for (int i = 0; i < 5; i++) {
                step.run(x, target);
            }
            Map<String, List<Double>> before = new LinkedHashMap<>();
            model.state().forEach((path, p) -> before.put(path, elements(p.value())));
            assertThatThrownBy(() -> step.run(Tensor.full(DType.F32, Double.NaN, 3, 6), target))
                    .isInstanceOf(TensorException.class).hasMessageContaining("the loss is NaN");
            model.state().forEach((path, p) -> assertThat(elements(p.value())).isEqualTo(before.get(path)));
            assertThat(optimizer.steps()).isEqualTo(5);
            assertThat(step.run(x, target)).isFinite();
            assertThat(AnyGpu.graphLaunches() - runs).isEqualTo(gpu.type().equals("cuda") ? 0 : 4);
        }
    }
}
