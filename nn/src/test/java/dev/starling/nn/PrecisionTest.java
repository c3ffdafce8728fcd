package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Recompute;
import dev.starling.autograd.Tape;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.GlobalAvgPool;
import dev.starling.nn.layer.GroupNorm;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.RmsNorm;
import dev.starling.nn.layer.Tanh;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Gpt2;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Op;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Compares what layers compute in 16 bits with the same computation in f32. */
class PrecisionTest {
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** The bound of a relative error: a few roundings to 8 or 11 bits. */
    private static double tolerance(DType type) {
        return type == DType.BF16 ? 4e-2 : 6e-3;
    }

    /** Returns |a - b|/|b| with Euclidean norms. */
    private static double distance(Tensor a, Tensor b) {
        return Math.sqrt(a.sub(b).square().sum().item() / Math.max(b.square().sum().item(), 1e-30));
    }

    private static Layer images(Generator g) {
        return Sequential.of(Conv2d.of(3, 8, 3).padding(1).build(g), BatchNorm.of(8), new Relu(), MaxPool2d.of(2),
                Conv2d.of(8, 16, 3).withoutBias().build(g), GroupNorm.of(4, 16), new Tanh(), new GlobalAvgPool(),
                LayerNorm.of(16), Linear.of(16, 12, g), new Gelu(), RmsNorm.of(12), new Flatten(),
                Linear.of(12, 5, g));
    }

    private static Map<String, Tensor> gradients(Precision precision, Layer model, Tensor x, Tensor y) {
        Tape tape = new Tape();
        model.parameters().values().forEach(p -> tape.watch(p.master()));
        Gradients gradients = precision.run(() -> tape.backward(Mode.training(Generator.seeded(3), () -> tape.record(
                () -> Loss.crossEntropy().of(precision.forward(model, x), y)))));
        Map<String, Tensor> each = new LinkedHashMap<>();
        model.parameters().forEach((path, p) -> each.put(path, gradients.of(p.master())));
        return each;
    }

    private static void assertAgree(DType type, Layer model, Tensor x, Tensor y) {
        Map<String, Tensor> narrow = gradients(Precision.of(type), model, x, y);
        Map<String, Tensor> full = gradients(Precision.of(DType.F32), model, x, y);
        double length = full.values().stream().mapToDouble(g -> g.square().sum().item()).sum();
        double error = 0;
        for (String path : full.keySet()) {
            assertThat(narrow.get(path).dtype()).as(path).isEqualTo(DType.F32);
            error += narrow.get(path).sub(full.get(path)).square().sum().item();
        }
        assertThat(Math.sqrt(error / length)).isPositive().isLessThan(tolerance(type));
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void computesGradientsOfImagesCloseToF32(DType type) {
        Generator g = Generator.seeded(1);
        try (Layer model = images(g)) {
            assertAgree(type, model, g.normal(16, 3, 12, 12), g.integers(0, 5, 16));
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void computesGradientsOfTextCloseToF32(DType type) {
        Generator g = Generator.seeded(1);
        try (Gpt2 model = Gpt2.of(31, 16, 32, 2, 4, g)) {
            Layer last = x -> model.forward(x).narrow(1, 15, 1).squeeze(1);
            Layer shown = new Layer() {
                @Override
                public Tensor forward(Tensor x) {
                    return last.forward(x);
                }

                @Override
                public void visit(Visitor visitor) {
                    visitor.layer("gpt", model);
                }
            };
            assertAgree(type, shown, g.integers(0, 31, 8, 16), g.integers(0, 31, 8));
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void returnsInferenceResultsInF32CloseToThoseOfF32(DType type) {
        Generator g = Generator.seeded(1);
        try (Layer model = images(g)) {
            Tensor x = g.normal(16, 3, 12, 12);
            Tensor full = model.forward(x);
            long live = Device.cpu().memory().live();
            Tensor narrow = Precision.of(type).forward(model, x);
            assertThat(narrow.dtype()).isEqualTo(DType.F32);
            assertThat(distance(narrow, full)).isPositive().isLessThan(tolerance(type));
            narrow.close();
            assertThat(model.parameters().values()).noneMatch(p -> p.master().isClosed());
            assertThat(Device.cpu().memory().live() - live).as("the copies of weights are freed")
                    .isLessThan(1 << 20);
        }
    }

    // ---- the weights that layers read ----

    @Test
    void convertsWeightsButNotBuffers() {
        try (BatchNorm norm = BatchNorm.of(3)) {
            Parameter weight = norm.state().get("weight");
            Parameter mean = norm.state().get("running_mean");
            Precision.of(DType.BF16).run(() -> {
                assertThat(Precision.current().type()).isEqualTo(DType.BF16);
                assertThat(weight.value().dtype()).isEqualTo(DType.BF16);
                assertThat(weight.value()).isSameAs(weight.value());
                assertThat(weight.master().dtype()).isEqualTo(DType.F32);
                assertThat(mean.value()).isSameAs(mean.master());
                Precision.of(DType.F32).run(() -> assertThat(weight.value()).isSameAs(weight.master()));
                return null;
            });
            assertThat(weight.value()).isSameAs(weight.master());
        }
    }

    @Test
    void convertsEachWeightOnceAndFreesTheCopiesAfterTheRun() {
        Generator g = Generator.seeded(1);
        try (Embedding table = Embedding.of(7, 4, g)) {
            // Shared weights: used for the lookup and in the product.
            Layer tied = x -> Functions.linear(table.forward(x), table.weight().value(), null);
            List<Tensor> copies = new ArrayList<>();
            Recorder observer = (Op op, Tensor[] in, Tensor[] out) -> {
                if (op instanceof Cast && in[0] == table.weight().master()) {
                    copies.add(out[0]);
                }
            };
            Tensor index = g.integers(0, 7, 5);
            Recorder.with(observer, () -> Precision.of(DType.BF16).run(() -> {
                try (Scope inner = Scope.open("layer")) {
                    tied.forward(index);
                }
                return tied.forward(index);
            }));
            assertThat(copies).hasSize(1).allMatch(Tensor::isClosed);
        }
    }

    @Test
    void keepsWeightsAndStatisticsOfNormalisationInF32() {
        Generator g = Generator.seeded(1);
        // At this distance from 0, bf16 has steps of 2, which would falsify mean and variance.
        Tensor x = g.normal(256, 1, 2, 2).add(300).to(DType.BF16);
        try (BatchNorm norm = BatchNorm.of(1, 1e-5, 1)) {
            Tensor y = Precision.of(DType.BF16).run(() -> Mode.training(g, () -> norm.forward(x)));
            assertThat(y.dtype()).isEqualTo(DType.BF16);
            double mean = x.to(DType.F64).mean().item();
            double variance = x.to(DType.F64).sub(mean).square().sum().item() / (x.count() - 1);
            assertThat(norm.state().get("running_mean").value().item()).isCloseTo(mean,
                    within(1e-3));
            assertThat(norm.state().get("running_var").value().item() / variance).isBetween(0.999, 1.001);
            Tensor expected = x.to(DType.F64).sub(mean).div(Math.sqrt(variance));
            assertThat(distance(y.to(DType.F64), expected)).isLessThan(5e-3);
            Tensor later = Precision.of(DType.BF16).run(() -> norm.forward(x));
            assertThat(distance(later.to(DType.F64), expected)).isLessThan(5e-3);
        }
    }

    @Test
    void givesTheSameGradientsWithRecomputation() {
        Generator g = Generator.seeded(1);
        try (Linear first = Linear.of(6, 8, g); Linear second = Linear.of(8, 3, g)) {
            Layer plain = Sequential.of(first, new Tanh(), second);
            Layer recomputing = new Layer() {
                @Override
                public Tensor forward(Tensor x) {
                    return Recompute.checkpoint(plain::forward, x, null);
                }

                @Override
                public void visit(Visitor visitor) {
                    visitor.layer("plain", plain);
                }
            };
            Tensor x = g.normal(9, 6);
            Tensor y = g.integers(0, 3, 9);
            Map<String, Tensor> expected = gradients(Precision.of(DType.BF16), plain, x, y);
            gradients(Precision.of(DType.BF16), recomputing, x, y).forEach((path, gradient) ->
                    assertThat(gradient.toFloats()).as(path).isEqualTo(expected.get(path.substring("plain.".length()))
                            .toFloats()));
        }
    }

    @Test
    void refusesOtherTypes() {
        assertThatThrownBy(() -> Precision.of(DType.I8)).isInstanceOf(TensorException.class)
                .hasMessageContaining("f32, bf16 or f16, got i8");
    }
}
