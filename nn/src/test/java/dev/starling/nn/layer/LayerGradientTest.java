package dev.starling.nn.layer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Graph;
import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Compares gradients of inputs and parameters through layers with central differences in double precision. */
class LayerGradientTest {
    private static final double STEP = 1e-6;

    private static Arguments of(String name, Function<Generator, Layer> layer, long... input) {
        return Arguments.of(Named.of(name, layer), input);
    }

    static Stream<Arguments> layers() {
        return Stream.of(
                of("linear", g -> Linear.of(5, 3, g), 4, 5),
                of("linear without bias", g -> Linear.withoutBias(5, 3, g), 2, 4, 5),
                of("conv1d", g -> Conv1d.of(2, 4, 3).padding(1).groups(2).build(g), 2, 2, 7),
                of("conv2d", g -> Conv2d.of(2, 3, 3).stride(2).padding(1).build(g), 2, 2, 6, 5),
                of("conv2d by pairs", g -> Conv2d.of(2, 3, 3, 1).stride(1, 2).padding(1, 0).dilation(2, 1)
                        .withoutBias().initializer(Initializer.xavierNormal()).build(g), 2, 2, 6, 5),
                of("conv3d", g -> Conv3d.of(1, 2, 2).build(g), 2, 1, 3, 4, 3),
                of("transposed conv2d", g -> Conv2d.of(3, 2, 3).stride(2).padding(1).transposed(1).build(g),
                        2, 3, 4, 3),
                of("batch norm", g -> BatchNorm.of(3), 4, 3, 2, 2),
                of("layer norm", g -> LayerNorm.of(4, 2), 3, 4, 2),
                of("group norm", g -> GroupNorm.of(2, 4), 3, 4, 2),
                of("rms norm", g -> RmsNorm.of(6), 3, 6),
                of("attention", g -> MultiHeadAttention.of(6, 2, g), 2, 3, 6),
                of("causal attention", g -> MultiHeadAttention.of(6, 3, g).causal().dropout(0.3), 2, 4, 6),
                of("lstm", g -> Lstm.of(3, 4).layers(2).bidirectional().dropout(0.3).build(g), 2, 3, 3),
                of("last lstm", g -> Lstm.of(3, 2).bidirectional().last().withoutBias().build(g), 3, 4, 3),
                of("gru", g -> Gru.of(3, 4).layers(2).timeFirst().build(g), 4, 2, 3),
                of("last gru", g -> Gru.of(2, 3).bidirectional().last().build(g), 2, 3, 2),
                of("rnn", g -> Rnn.of(3, 4).bidirectional().build(g), 2, 3, 3),
                of("dropout", g -> new Dropout(0.5), 4, 6),
                of("pools", g -> Sequential.of(new MaxPool2d(3, 2, 1), new AvgPool2d(2, 1, 0),
                        new AdaptiveAvgPool2d(1, 2), new Flatten()), 2, 2, 7, 8),
                of("global pool", g -> new GlobalAvgPool(), 2, 3, 4, 5),
                of("activations", g -> Sequential.of(new Gelu(), new Silu(), new Tanh(), new Softplus(),
                        new LeakyRelu(0.1), new Elu(1.5), new Sigmoid(), new Softmax(1)), 3, 4),
                of("fused rectifiers", g -> Sequential.of(Linear.of(4, 6, g), new Relu(), BatchNorm.of(6), new Relu(),
                        Linear.of(6, 2, g)), 5, 4),
                of("further activations", g -> Sequential.of(new Mish(), new HardSwish(), new Selu(), PRelu.of(4),
                        new HardSigmoid(), new Relu6(), new LogSoftmax(1)), 3, 4),
                of("adapter", g -> LoraLinear.of(Linear.of(5, 3, g), 2, 3, g).dropout(0.4), 4, 5),
                of("gates", g -> Sequential.of(SwiGlu.of(6, 4, g), new Glu(-1)), 3, 6),
                of("pools of sequences", g -> Sequential.of(new MaxPool1d(3, 2, 1), AvgPool1d.of(2)), 2, 3, 9),
                of("pools of volumes", g -> Sequential.of(new AvgPool3d(2, 1, 0), MaxPool3d.of(2)), 2, 1, 5, 5, 5),
                of("instance norm", g -> InstanceNorm.affine(3), 2, 3, 4, 2),
                of("resized images", g -> Sequential.of(Upsample.bilinear(2), new PixelUnshuffle(2),
                        Upsample.nearest(3), new PixelShuffle(2), new AdaptiveMaxPool2d(2, 3)), 2, 2, 3, 2),
                of("images of another size", g -> Sequential.of(new Resize(5, 2, false), new Resize(2, 3, true)),
                        2, 2, 3, 4),
                of("dropped channels and samples", g -> Sequential.of(new Dropout2d(0.4), new StochasticDepth(0.5)),
                        5, 4, 3, 2),
                of("bicubic", g -> Upsample.bicubic(2), 2, 2, 3, 4),
                of("weight norm", g -> Sequential.of(WeightNorm.of(Conv2d.of(2, 3, 2).build(g)), new Flatten(),
                        WeightNorm.of(Linear.of(12, 3, g))), 3, 2, 3, 3),
                of("grouped attention", g -> MultiHeadAttention.grouped(8, 4, 2, g).causal().rotary(50), 2, 3, 8),
                of("positions", g -> LearnedPositions.of(4, 3, g), 2, 4, 3),
                of("encoder", g -> TransformerEncoderLayer.of(6, 2, 5, g).normFirst().dropout(0.2), 2, 3, 6),
                of("decoder", g -> memory(TransformerDecoderLayer.of(6, 2, 5, g)), 2, 3, 6),
                of("cell", g -> RecurrentCell.gru(3, 4, g), 5, 3),
                of("residual", g -> Residual.of(Linear.of(4, 3, g), Linear.withoutBias(4, 3, g)), 5, 4),
                of("graph", g -> Graph.of(x -> {
                    Graph.Node a = x.then("first", Linear.of(4, 3, g)).then(new Relu());
                    Graph.Node b = x.then("second", Linear.of(4, 3, g));
                    return a.add(b).mul(b.then(new Relu())).concat(1, a, b).then("last", Linear.of(9, 2, g));
                }), 5, 4));
    }

    /** A decoder whose memory is its input. */
    private static Layer memory(TransformerDecoderLayer decoder) {
        return new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return decoder.forward(x, x.narrow(1, 0, 2), null);
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.layer("decoder", decoder);
            }
        };
    }

    @ParameterizedTest
    @MethodSource("layers")
    void agreesWithDifferences(Function<Generator, Layer> make, long[] input) {
        Generator g = Generator.seeded(3);
        try (Scope scope = Scope.open(); Layer layer = make.apply(g).to(DType.F64)) {
            layer.parameters().values().forEach(p -> p.set(p.value().add(g.normal(p.shape().dims()).mul(0.3))));
            Tensor x = g.normal(input).to(DType.F64);
            Map<String, Parameter> parameters = layer.parameters();
            Tensor[] watched = Stream.concat(Stream.of(x), parameters.values().stream().map(Parameter::value))
                    .toArray(Tensor[]::new);
            Tape tape = new Tape().watch(watched);
            Tensor loss = tape.record(() -> loss(layer, x));
            Gradients gradients = tape.backward(loss);
            for (Tensor t : watched) {
                Tensor direction = g.normal(t.shape().dims()).to(DType.F64);
                double analytic = gradients.of(t).mul(direction).sum().item();
                Tensor at = t.copy();
                Update assign = new Update.Assign();
                Tensor.apply(assign, t, at.add(direction.mul(STEP)));
                double up = loss(layer, x).item();
                Tensor.apply(assign, t, at.sub(direction.mul(STEP)));
                double down = loss(layer, x).item();
                Tensor.apply(assign, t, at);
                double numeric = (up - down) / (2 * STEP);
                assertThat(analytic).isCloseTo(numeric, within(1e-6 * Math.max(1, Math.abs(numeric))));
            }
        }
    }

    /** A fixed random projection of the layer's result; the random numbers are equal in each call. */
    private static Tensor loss(Layer layer, Tensor x) {
        return Mode.training(Generator.seeded(9), () -> {
            Tensor y = layer.forward(x);
            return y.mul(Generator.seeded(8).normal(y.shape().dims()).to(DType.F64)).sum();
        });
    }
}
