package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Tape;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.layer.Tanh;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SequentialTest {
    private static Sequential network(Generator g) {
        return Sequential.of(
                Conv2d.of(2, 4, 3).padding(1).build(g), BatchNorm.of(4), new Relu(),
                Residual.of(Sequential.of(Conv2d.of(4, 4, 3).padding(1).build(g), new Relu())),
                MaxPool2d.of(2), new Flatten(), Linear.of(4 * 4 * 4, 8, g), new Relu(), Linear.of(8, 3, g));
    }

    @Test
    void namesParametersByPath() {
        try (Sequential net = network(Generator.seeded(1))) {
            assertThat(net.state().keySet()).containsExactly("0.weight", "0.bias", "1.weight", "1.bias",
                    "1.running_mean", "1.running_var", "3.body.0.weight", "3.body.0.bias", "6.weight", "6.bias",
                    "8.weight", "8.bias");
            assertThat(net.parameters().keySet()).doesNotContain("1.running_mean", "1.running_var").hasSize(10);
        }
    }

    @Test
    void computesTheSameFused() {
        Generator g = Generator.seeded(2);
        try (Scope scope = Scope.open(); Sequential net = network(g)) {
            Tensor x = g.normal(5, 2, 8, 8);
            Tensor unfused = x;
            for (Layer layer : net.layers()) {
                unfused = layer.forward(unfused);
            }
            assertThat(net.forward(x).toFloats()).usingComparatorWithPrecision(1e-5f)
                    .containsExactly(unfused.toFloats());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void computesTheSameWithAnyActivationFused(boolean training) {
        Generator g = Generator.seeded(2);
        try (Scope scope = Scope.open()) {
            for (Layer activation : new Layer[] {new Relu(), new Gelu(true), new Gelu(false)}) {
                for (Layer layer : new Layer[] {Linear.of(8, 5, g), Linear.withoutBias(8, 5, g), BatchNorm.of(3),
                    Conv2d.of(3, 4, 3).build(g), Conv2d.of(3, 4, 3).transposed().build(g)}) {
                    Tensor x = g.normal(2, 3, 8, 8);
                    Layer plain = activation::forward;
                    Supplier<Tensor[]> variants = () -> new Tensor[] {Sequential.of(layer, plain).forward(x),
                        Sequential.of(layer, activation).forward(x),
                        Graph.of(n -> n.then(layer).then(activation)).forward(x)};
                    Tensor[] y = training ? Mode.training(g, variants) : variants.get();
                    assertThat(y[1].toFloats()).usingComparatorWithPrecision(1e-6f).containsExactly(y[0].toFloats());
                    assertThat(y[2].toFloats()).containsExactly(y[1].toFloats());
                    layer.close();
                }
            }
        }
    }

    /** The perceptron of a GPT-2 block, with activations in the layers' kernels and as separate operations. */
    @Test
    void trainsAPerceptronToTheSameLossesFused() {
        double[] fused = losses(new Gelu(true));
        double[] separate = losses(new Gelu(true)::forward);
        assertThat(fused).usingComparatorWithPrecision(1e-4).containsExactly(separate);
        assertThat(fused[fused.length - 1]).isLessThan(0.5 * fused[0]);
        assertThat(losses(new Gelu(false))[20]).as("with the error function losses differ").isNotEqualTo(separate[20]);
    }

    private static double[] losses(Layer activation) {
        Generator g = Generator.seeded(6);
        double[] losses = new double[60];
        try (Scope scope = Scope.open();
                Sequential net = Sequential.of(Residual.of(Sequential.of(LayerNorm.of(16), Linear.of(16, 64, g),
                        activation, Linear.of(64, 16, g))), Linear.of(16, 16, g), activation, Linear.of(16, 1, g));
                Optimizer adam = Adam.over(net).rate(3e-3).build()) {
            Tensor x = g.normal(4, 8, 16);
            Tensor y = x.sin().sum(2).unsqueeze(2);
            Tape tape = new Tape();
            for (int i = 0; i < losses.length; i++) {
                try (Scope step = Scope.open()) {
                    tape.reset().watch(adam.watched());
                    Tensor loss = tape.record(() -> Losses.mseLoss(net.forward(x), y, Losses.Reduce.MEAN));
                    losses[i] = loss.item();
                    adam.step(tape.backward(loss));
                }
            }
        }
        return losses;
    }

    @Test
    void freesIntermediateResultsIfNothingIsRecorded() {
        Generator g = Generator.seeded(2);
        try (Scope scope = Scope.open(); Sequential net = network(g)) {
            Tensor x = g.normal(5, 2, 8, 8);
            int before = scope.size();
            Tensor y = net.forward(x);
            assertThat(scope.size()).isEqualTo(before + 1);
            assertThat(y.isClosed()).isFalse();
            assertThat(x.isClosed()).isFalse();
        }
    }

    @Test
    void returnsItsInputIfItHasNoLayers() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2);
            assertThat(Sequential.of().forward(x)).isSameAs(x);
            Tensor flat = Sequential.of(new Flatten(), new Flatten()).forward(x);
            assertThat(flat.toFloats()).containsExactly(1, 2, 3, 4);
            assertThat(x.isClosed()).isFalse();
        }
    }

    @Test
    void allowsALayerToReturnItsParameter() {
        try (Scope scope = Scope.open()) {
            Parameter held = Parameter.of(Tensor.of(new float[] {1, 2}));
            Tensor y = Sequential.of(x -> held.value(), x -> x.mul(3), x -> held.value(), x -> x.add(1))
                    .forward(Tensor.zeros(2));
            assertThat(y.toFloats()).containsExactly(2, 3);
            assertThat(held.value().toFloats()).containsExactly(1, 2);
            held.close();
        }
    }

    @Test
    void trainsALineWithSgd() {
        Generator g = Generator.seeded(3);
        try (Linear line = Linear.of(1, 1, g); Optimizer sgd = Sgd.over(line).rate(0.3).momentum(0.5).build()) {
            for (int i = 0; i < 300; i++) {
                try (Scope scope = Scope.open()) {
                    Tensor x = g.uniform(16, 1);
                    Tape tape = new Tape().watch(sgd.watched());
                    Tensor loss = tape.record(() -> Losses.mseLoss(line.forward(x), x.mul(2).add(-1),
                            Losses.Reduce.MEAN));
                    sgd.step(tape.backward(loss));
                }
            }
            assertThat(line.weight().value().item()).isCloseTo(2, within(1e-3));
            assertThat(line.bias().value().item()).isCloseTo(-1, within(1e-3));
            assertThat(sgd.steps()).isEqualTo(300);
        }
    }

    @Test
    void trainsExclusiveOrWithAdam() {
        Generator g = Generator.seeded(4);
        try (Scope scope = Scope.open();
                Sequential net = Sequential.of(Linear.of(2, 8, g), new Tanh(), Linear.of(8, 1, g));
                Optimizer adam = Adam.over(net).rate(0.05).build()) {
            Tensor x = Tensor.of(new float[] {0, 0, 0, 1, 1, 0, 1, 1}, 4, 2);
            Tensor y = Tensor.of(new float[] {0, 1, 1, 0}, 4, 1);
            Tape tape = new Tape();
            for (int i = 0; i < 300; i++) {
                try (Scope step = Scope.open()) {
                    tape.reset().watch(adam.watched());
                    Tensor loss = tape.record(() -> Losses.binaryCrossEntropyWithLogits(net.forward(x), y,
                            Losses.Reduce.MEAN));
                    adam.step(tape.backward(loss));
                }
            }
            assertThat(net.forward(x).gt(0).toLongs()).containsExactly(0, 1, 1, 0);
        }
    }

    @Test
    void agreesWithTheReferenceDevice() {
        float[] fast = logits(Device.cpu());
        float[] reference = logits(Device.reference());
        assertThat(fast).usingComparatorWithPrecision(2e-5f).containsExactly(reference);
    }

    private static float[] logits(Device device) {
        return Device.with(device, () -> {
            Generator g = Generator.seeded(5);
            try (Scope scope = Scope.open(); Sequential net = network(g)) {
                Tensor x = g.normal(3, 2, 8, 8);
                Mode.training(g, () -> Recorder.with((op, in, out) -> { }, () -> net.forward(x)));
                return net.forward(x).toFloats();
            }
        });
    }
}
