package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.AdaptiveMaxPool2d;
import dev.starling.nn.layer.AvgPool1d;
import dev.starling.nn.layer.AvgPool3d;
import dev.starling.nn.layer.Elu;
import dev.starling.nn.layer.Glu;
import dev.starling.nn.layer.HardSigmoid;
import dev.starling.nn.layer.HardSwish;
import dev.starling.nn.layer.InstanceNorm;
import dev.starling.nn.layer.LogSoftmax;
import dev.starling.nn.layer.MaxPool1d;
import dev.starling.nn.layer.MaxPool3d;
import dev.starling.nn.layer.Mish;
import dev.starling.nn.layer.PRelu;
import dev.starling.nn.layer.PixelShuffle;
import dev.starling.nn.layer.PixelUnshuffle;
import dev.starling.nn.layer.Relu6;
import dev.starling.nn.layer.Resize;
import dev.starling.nn.layer.Selu;
import dev.starling.nn.layer.Upsample;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Results and gradients of layers without or with constant weights, Starling's and PyTorch's. */
class LayerParityTest {
    private record Case(Layer ours, UnaryOperator<org.bytedeco.pytorch.Tensor> theirs, long... input) { }

    private static final Map<String, Case> CASES = new TreeMap<>(Map.ofEntries(
            Map.entry("mish", new Case(new Mish(), torch::mish, 5, 7)),
            Map.entry("selu", new Case(new Selu(), torch::selu, 5, 7)),
            Map.entry("elu", new Case(new Elu(1), torch::elu, 5, 7)),
            Map.entry("hard swish", new Case(new HardSwish(), torch::hardswish, 5, 7)),
            Map.entry("hard sigmoid", new Case(new HardSigmoid(), torch::hardsigmoid, 5, 7)),
            Map.entry("relu6", new Case(new Relu6(), torch::relu6, 5, 7)),
            Map.entry("log-softmax", new Case(new LogSoftmax(1), x -> torch.log_softmax(x, 1), 5, 7, 2)),
            Map.entry("prelu", new Case(PRelu.of(3), x -> torch.prelu(x, torch.full(new long[] {3}, new Scalar(0.25))),
                    2, 3, 4, 5)),
            Map.entry("prelu with one slope", new Case(PRelu.of(), x -> torch.prelu(x, torch.full(new long[] {1},
                    new Scalar(0.25))), 2, 3, 4)),
            Map.entry("glu", new Case(new Glu(-1), x -> torch.glu(x, -1), 3, 8)),
            Map.entry("glu of channels", new Case(new Glu(1), x -> torch.glu(x, 1), 3, 8, 2)),
            Map.entry("max pool 1d", new Case(new MaxPool1d(3, 2, 1), x -> torch.max_pool1d(x, new long[] {3},
                    new long[] {2}, new long[] {1}, new long[] {1}, false), 2, 3, 11)),
            Map.entry("max pool 3d", new Case(new MaxPool3d(3, 2, 1), x -> torch.max_pool3d(x, new long[] {3, 3, 3},
                    new long[] {2, 2, 2}, new long[] {1, 1, 1}, new long[] {1, 1, 1}, false), 2, 3, 5, 6, 7)),
            Map.entry("average pool 1d", new Case(new AvgPool1d(3, 2, 1), x -> torch.avg_pool1d(x, new long[] {3},
                    new long[] {2}, new long[] {1}, false, true), 2, 3, 11)),
            Map.entry("average pool 3d", new Case(new AvgPool3d(2, 1, 0), x -> torch.avg_pool3d(x,
                    new long[] {2, 2, 2}, new long[] {1, 1, 1}, new long[] {0, 0, 0}, false, true, new LongOptional()),
                    2, 3, 4, 3, 5)),
            Map.entry("adaptive max pool", new Case(new AdaptiveMaxPool2d(3, 2), x -> torch.adaptive_max_pool2d(x,
                    3, 2).get0(), 2, 3, 7, 5)),
            Map.entry("instance norm", new Case(InstanceNorm.of(3), x -> torch.instance_norm(x, new TensorOptional(),
                    new TensorOptional(), new TensorOptional(), new TensorOptional(), true, 0.1, 1e-5, false),
                    2, 3, 4, 5)),
            Map.entry("pixel shuffle", new Case(new PixelShuffle(2), x -> torch.pixel_shuffle(x, 2), 2, 8, 3, 4)),
            Map.entry("pixel unshuffle", new Case(new PixelUnshuffle(3), x -> torch.pixel_unshuffle(x, 3), 2, 2, 6, 9)),
            Map.entry("nearest", new Case(Upsample.nearest(3), x -> torch.upsample_nearest2d(x, 12, 15), 2, 3, 4, 5)),
            Map.entry("bilinear", new Case(Upsample.bilinear(2), x -> torch.upsample_bilinear2d(x, new long[] {8, 10},
                    false), 2, 3, 4, 5)),
            Map.entry("bicubic", new Case(Upsample.bicubic(2), x -> torch.upsample_bicubic2d(x, new long[] {8, 10},
                    false), 2, 3, 4, 5)),
            Map.entry("bicubic by 3", new Case(Upsample.bicubic(3), x -> torch.upsample_bicubic2d(x,
                    new long[] {3, 6}, false), 2, 3, 1, 2)),
            Map.entry("resize", new Case(new Resize(7, 3, false), x -> torch.upsample_bilinear2d(x, new long[] {7, 3},
                    false), 2, 3, 4, 5)),
            Map.entry("bilinear by 3", new Case(Upsample.bilinear(3), x -> torch.upsample_bilinear2d(x,
                    new long[] {3, 15}, false), 2, 3, 1, 5))));

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    static Stream<String> layers() {
        return CASES.keySet().stream();
    }

    @ParameterizedTest
    @MethodSource("layers")
    void computesAndDifferentiatesAsPyTorch(String name) {
        Case c = CASES.get(name);
        float[] input = Inputs.normal(3, c.input);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope()) {
            Tensor x = Tensor.of(input, c.input).mul(2);
            Tape tape = new Tape().watch(x);
            Tensor[] y = new Tensor[1];
            Tensor loss = tape.record(() -> {
                y[0] = c.ours.forward(x);
                return y[0].mul(Tensor.of(Inputs.normal(5, y[0].shape().dims()), y[0].shape().dims())).sum();
            });
            float[] result = y[0].toFloats();
            float[] gradient = tape.backward(loss).of(x).toFloats();

            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(x.toFloats(), c.input).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirY = c.theirs.apply(theirX);
            long[] shape = y[0].shape().dims();
            assertThat(theirY.sizes().vec().get()).isEqualTo(shape);
            theirY.mul(Torch.tensor(Inputs.normal(5, shape), shape)).sum().backward();
            assertThat(result).usingComparatorWithPrecision(1e-5f).containsExactly(Torch.floats(theirY.detach()));
            assertThat(gradient).usingComparatorWithPrecision(3e-5f).containsExactly(Torch.floats(theirX.grad()));
        }
    }
}
