package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.LayerCase.Input;
import dev.starling.jmh.LayerCase.Weights;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Layers and the same functions of PyTorch: results, gradients of inputs and of all weights, and buffers after the
 * pass, in f32 and f64 from equal weights; results in bf16; and the corners of elementwise functions.
 *
 * <p>PyTorch computes in f64. (In f32, data gradients of its convolutions of small images are wrong on some processors:
 * they differ from its own in f64.)
 */
class LayerParityTest {
    /** Where functions have kinks, overflow, or are not finite. */
    private static final double[] CORNERS = {Double.NaN, Double.NEGATIVE_INFINITY, -1e30, -100, -6, -3, -1, -1e-6, -0.0,
        0, 1e-6, 0.5, 1, 3, 6, 25, 100, 1e30, Double.POSITIVE_INFINITY, Double.NaN};

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    static Stream<LayerCase> layers() {
        return LayerCases.all().stream();
    }

    static Stream<LayerCase> elementwise() {
        return layers().filter(c -> c.input() == Input.CORNERS);
    }

    @Test
    void comparesAllLayers() throws IOException {
        ParityPage.requireAll("Layers", layers().map(LayerCase::row).toList());
    }

    @ParameterizedTest
    @MethodSource("layers")
    void computesAndDifferentiatesAsPyTorch(LayerCase c) {
        for (long[] shape : c.shapes()) {
            compare(c, c.input(DType.F64, shape), 1e-11);
        }
        compare(c, c.input(DType.F32, c.shapes()[0]), 1e-5);
    }

    /** Where a slope is not defined, as that of a rectifier at 0, both choose the same one. */
    @ParameterizedTest
    @MethodSource("elementwise")
    void agreesWithPyTorchAtCorners(LayerCase c) {
        int channels = (int) c.shapes()[0][1];
        double[] values = new double[CORNERS.length * channels];
        Arrays.setAll(values, i -> CORNERS[i / channels]);
        try (Scope scope = Scope.open("corners")) {
            compare(c, Tensor.of(values, CORNERS.length, channels), 1e-11);
            compare(c, Tensor.of(values, CORNERS.length, channels).to(DType.F32), 1e-5);
        }
    }

    /** A result in 16 bits is that of f64, but for the roundings of a few intermediate results and of the weights. */
    @ParameterizedTest
    @MethodSource("layers")
    void computesInSixteenBits(LayerCase c) {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope(); Layer layer = layer(c,
                DType.F32)) {
            Tensor x = c.input(DType.BF16, c.shapes()[0]);
            Weights weights = Weights.of(layer);
            Tensor y = mode(c, () -> Precision.of(DType.BF16).forward(layer, x));
            double[] expected = Torch.doubles(c.theirs().of(torch(x), weights));
            assertClose("result", y.toDoubles(), expected, 0.03);
        }
    }

    /** As PyTorch, which refuses it too: one value has no variance. */
    @Test
    void refusesToTrainABatchNormOnOneValue() {
        try (Scope scope = Scope.open("test"); BatchNorm norm = BatchNorm.of(3)) {
            assertThatThrownBy(() -> Mode.training(Generator.seeded(1), () -> norm.forward(Tensor.ones(1, 3))))
                    .isInstanceOf(TensorException.class).hasMessageContaining("more than one value");
            assertThat(norm.state().get("running_var").value().toFloats()).containsExactly(1, 1, 1);
            assertThat(norm.forward(Tensor.ones(1, 3)).count()).isEqualTo(3);
        }
    }

    private static Layer layer(LayerCase c, DType type) {
        Generator g = Generator.seeded(7);
        Layer layer = c.ours().apply(g).to(type);
        layer.parameters().values().forEach(p -> p.set(p.value().add(g.normal(p.shape().dims()).mul(0.3).to(type))));
        return layer;
    }

    private static <T> T mode(LayerCase c, Supplier<T> body) {
        return c.training() ? Mode.training(Generator.seeded(9), body) : Mode.inference(body);
    }

    private static org.bytedeco.pytorch.Tensor torch(Tensor x) {
        return x.dtype() == DType.I64 ? Torch.labels(x.toLongs()).reshape(x.shape().dims())
                : Torch.tensor(x.toDoubles(), x.shape().dims());
    }

    private static void compare(LayerCase c, Tensor x, double tolerance) {
        DType type = tolerance < 1e-9 ? DType.F64 : DType.F32;
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope(); Layer layer = layer(c, type)) {
            Weights weights = Weights.of(layer);
            boolean numbers = x.dtype().isFloating();
            List<Tensor> watched = new ArrayList<>(numbers ? List.of(x) : List.of());
            Map<String, Parameter> parameters = layer.parameters();
            parameters.values().forEach(p -> watched.add(p.value()));
            Tape tape = new Tape().watch(watched.toArray(Tensor[]::new));
            Tensor[] y = new Tensor[1];
            Tensor loss = tape.record(() -> {
                y[0] = mode(c, () -> layer.forward(x));
                return y[0].mul(factors(y[0]).to(type)).sum();
            });
            double[] result = y[0].toDoubles();

            org.bytedeco.pytorch.Tensor theirX = torch(x);
            theirX = numbers ? theirX.set_requires_grad(true) : theirX;
            org.bytedeco.pytorch.Tensor theirY = c.theirs().of(theirX, weights);
            assertThat(theirY.sizes().vec().get()).isEqualTo(y[0].shape().dims());
            double[] expected = Torch.doubles(theirY);
            assertClose("result", result, expected, tolerance);
            double[] given = numbers ? x.toDoubles() : new double[0];
            for (int i = 0; given.length == result.length && i < given.length; i++) {
                if (Double.isNaN(given[i]) && Double.isNaN(expected[i])) {
                    assertThat(result[i]).as("the result of NaN, element %d", i).isNaN();
                }
            }
            layer.state().forEach((path, p) -> assertClose(path, p.value().toDoubles(), Torch.doubles(weights.of(path)),
                    tolerance));
            if (!theirY.requires_grad()) {
                return;
            }
            theirY.mul(torch(factors(y[0]))).sum().backward();
            Gradients gradients = tape.backward(loss);
            if (numbers) {
                double[] own = gradients.of(x).toDoubles();
                double[] slopes = Torch.doubles(theirX.grad());
                // Where a result is NaN no step is taken, so that gradients of the same element do not matter.
                for (int i = 0; !isFinite(expected) && i < own.length; i++) {
                    own[i] = Double.isNaN(result[i]) ? slopes[i] : own[i];
                }
                assertClose("gradient of x", own, slopes, tolerance);
            }
            if (isFinite(expected)) {
                parameters.forEach((path, p) -> assertClose("gradient of " + path, gradients.of(p.value()).toDoubles(),
                        gradient(weights.of(path)), tolerance));
            }
        }
    }

    private static double[] gradient(org.bytedeco.pytorch.Tensor weight) {
        return weight.grad().defined() ? Torch.doubles(weight.grad()) : new double[Math.toIntExact(weight.numel())];
    }

    private static Tensor factors(Tensor y) {
        return Tensor.of(Inputs.normal(5, y.shape().dims()), y.shape().dims()).to(DType.F64);
    }

    private static boolean isFinite(double... values) {
        return Arrays.stream(values).allMatch(Double::isFinite);
    }

    /**
     * Compares numbers relative to the largest one or, if there are infinite ones, each by itself. PyTorch's may be NaN
     * where ours is the limit for an infinite input.
     */
    static void assertClose(String what, double[] ours, double[] theirs, double tolerance) {
        assertThat(ours).as(what).hasSameSizeAs(theirs);
        boolean corners = Arrays.stream(theirs).anyMatch(v -> !(Math.abs(v) < 1e20));
        double largest = Math.max(0.1, Arrays.stream(theirs).map(Math::abs).max().orElse(0));
        for (int i = 0; i < ours.length; i++) {
            double scale = corners ? Math.max(1, Math.abs(theirs[i])) : largest;
            boolean limit = corners && Double.isNaN(theirs[i]) && (Double.isInfinite(ours[i])
                    || Math.abs(ours[i]) < 10);
            assertThat(limit || Double.compare(ours[i], theirs[i]) == 0
                    || Math.abs(ours[i] - theirs[i]) <= tolerance * scale)
                    .as("%s, element %d: ours %s, PyTorch's %s", what, i, ours[i], theirs[i]).isTrue();
        }
    }
}
