package dev.starling.jmh;

import dev.starling.jmh.LayerCase.Input;
import dev.starling.jmh.LayerCase.TorchFunction;
import dev.starling.jmh.LayerCase.Weights;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.AdaptiveAvgPool2d;
import dev.starling.nn.layer.AdaptiveMaxPool2d;
import dev.starling.nn.layer.AvgPool1d;
import dev.starling.nn.layer.AvgPool2d;
import dev.starling.nn.layer.AvgPool3d;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv;
import dev.starling.nn.layer.Conv1d;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Conv3d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Dropout2d;
import dev.starling.nn.layer.Elu;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.EmbeddingBag;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.GlobalAvgPool;
import dev.starling.nn.layer.Glu;
import dev.starling.nn.layer.GroupNorm;
import dev.starling.nn.layer.HardSigmoid;
import dev.starling.nn.layer.HardSwish;
import dev.starling.nn.layer.Identity;
import dev.starling.nn.layer.InstanceNorm;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.LeakyRelu;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.LogSoftmax;
import dev.starling.nn.layer.LoraLinear;
import dev.starling.nn.layer.MaxPool1d;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.MaxPool3d;
import dev.starling.nn.layer.Mish;
import dev.starling.nn.layer.PRelu;
import dev.starling.nn.layer.PixelShuffle;
import dev.starling.nn.layer.PixelUnshuffle;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Relu6;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.layer.Resize;
import dev.starling.nn.layer.RmsNorm;
import dev.starling.nn.layer.Selu;
import dev.starling.nn.layer.Sigmoid;
import dev.starling.nn.layer.Silu;
import dev.starling.nn.layer.Softmax;
import dev.starling.nn.layer.Softplus;
import dev.starling.nn.layer.SpectralNorm;
import dev.starling.nn.layer.StochasticDepth;
import dev.starling.nn.layer.SwiGlu;
import dev.starling.nn.layer.Tanh;
import dev.starling.nn.layer.Upsample;
import dev.starling.nn.layer.WeightNorm;
import dev.starling.tensor.Generator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/** Layers and their functions in PyTorch; {@link SequenceCases} has those of sequences. */
final class LayerCases {
    private static final List<LayerCase> ALL = new ArrayList<>();

    static {
        activations();
        linear();
        convolutions();
        transposedConvolutions();
        norms();
        pools();
        images();
        embeddings();
        weights();
    }

    private LayerCases() { }

    static List<LayerCase> all() {
        List<LayerCase> all = new ArrayList<>(ALL);
        all.addAll(SequenceCases.all());
        return all;
    }

    private static long[] shape(long... dims) {
        return dims;
    }

    private static void add(String row, String name, Function<Generator, Layer> ours, TorchFunction theirs,
            long[]... shapes) {
        ALL.add(new LayerCase(row, name, ours, theirs, Input.NUMBERS, true, shapes));
    }

    private static void inInference(String row, String name, Function<Generator, Layer> ours, TorchFunction theirs,
            long[]... shapes) {
        ALL.add(new LayerCase(row, name, ours, theirs, Input.NUMBERS, false, shapes));
    }

    private static void elementwise(Layer ours, UnaryOperator<Tensor> theirs) {
        ALL.add(new LayerCase(ours.getClass().getSimpleName(), ours.toString(), g -> ours, (x, w) -> theirs.apply(x),
                Input.CORNERS, true, shape(5, 7), shape(1, 1), shape(2, 3, 1, 4), shape(0, 3)));
    }

    private static void activations() {
        elementwise(new Relu(), torch::relu);
        elementwise(new Relu6(), torch::relu6);
        elementwise(new Gelu(), x -> torch.gelu(x, "none"));
        elementwise(new Gelu(true), x -> torch.gelu(x, "tanh"));
        elementwise(new Silu(), torch::silu);
        elementwise(new Mish(), torch::mish);
        elementwise(new Tanh(), torch::tanh);
        elementwise(new Sigmoid(), torch::sigmoid);
        elementwise(new Softplus(), x -> torch.softplus(x, new Scalar(1), new Scalar(40)));
        elementwise(new Selu(), torch::selu);
        elementwise(new Elu(1), torch::elu);
        elementwise(new Elu(0.4), x -> torch.elu(x, new Scalar(0.4), new Scalar(1), new Scalar(1)));
        elementwise(new LeakyRelu(0.01), torch::leaky_relu);
        elementwise(new LeakyRelu(0.3), x -> torch.leaky_relu(x, new Scalar(0.3)));
        elementwise(new HardSwish(), torch::hardswish);
        // Their function divides by 6 in f32.
        elementwise(new HardSigmoid(), x -> torch.relu6(x.add(new Scalar(3))).div(new Scalar(6)));
        elementwise(new Identity(), x -> x.mul(new Scalar(1)));
        ALL.add(new LayerCase("PRelu.of", "for all", g -> PRelu.of(), (x, w) -> torch.prelu(x, w.of("weight")),
                Input.CORNERS, true, shape(2, 3, 4), shape(5, 1), shape(4, 6)));
        ALL.add(new LayerCase("PRelu.of", "by channel", g -> PRelu.of(3), (x, w) -> torch.prelu(x, w.of("weight")),
                Input.CORNERS, true, shape(2, 3), shape(1, 3, 1), shape(2, 3, 4, 5)));
        add("Softmax", "of channels", g -> new Softmax(1), (x, w) -> torch.softmax(x, 1), shape(3, 4), shape(2, 5, 3),
                shape(2, 1));
        add("Softmax", "of the last", g -> new Softmax(-1), (x, w) -> torch.softmax(x, -1), shape(3, 4), shape(7));
        add("LogSoftmax", "of channels", g -> new LogSoftmax(1), (x, w) -> torch.log_softmax(x, 1), shape(3, 4),
                shape(5, 7, 2), shape(2, 1));
        add("Glu", "of the last", g -> new Glu(-1), (x, w) -> torch.glu(x, -1), shape(3, 8), shape(1, 2));
        add("Glu", "of channels", g -> new Glu(1), (x, w) -> torch.glu(x, 1), shape(3, 8, 2), shape(2, 4));
        TorchFunction same = (x, w) -> torch.dropout(x, 0.3, false);
        inInference("Dropout", "", g -> new Dropout(0.3), same, shape(4, 5));
        add("Dropout", "of nothing", g -> new Dropout(0), same, shape(4, 5));
        inInference("Dropout2d", "", g -> new Dropout2d(0.3), same, shape(4, 5, 2, 2));
        inInference("StochasticDepth", "", g -> new StochasticDepth(0.3), same, shape(4, 5));
    }

    static Tensor linear(Tensor x, Weights w) {
        return torch.linear(x, w.of("weight"), w.optional("bias"));
    }

    private static void linear() {
        add("Linear.of", "", g -> Linear.of(5, 3, g), LayerCases::linear, shape(4, 5), shape(1, 5), shape(2, 3, 5),
                shape(2, 1, 3, 5));
        add("Linear.of", "without bias", g -> Linear.withoutBias(5, 3, g), LayerCases::linear, shape(4, 5),
                shape(2, 3, 5));
        add("Linear.of", "of one number", g -> Linear.of(1, 1, g), LayerCases::linear, shape(4, 1), shape(1, 1));
        add("LoraLinear.of", "", g -> LoraLinear.of(Linear.of(5, 3, g), 2, 3, g), (x, w) -> linear(x, w).add(
                torch.linear(torch.linear(x, w.of("lora_A")), w.of("lora_B")).mul(new Scalar(1.5))), shape(4, 5),
                shape(2, 3, 5));
        add("SwiGlu.of", "", g -> SwiGlu.of(6, 4, g), (x, w) -> linear(torch.silu(linear(x, w.within("gate.")))
                .mul(linear(x, w.within("up."))), w.within("down.")), shape(3, 6), shape(2, 3, 6));
        add("Residual.of", "", g -> Residual.of(Linear.of(4, 4, g)), (x, w) -> x.add(linear(x, w.within("body."))),
                shape(3, 4));
        add("Residual.of", "with a shortcut", g -> Residual.of(Linear.of(4, 2, g), Linear.withoutBias(4, 2, g)),
                (x, w) -> linear(x, w.within("body.")).add(linear(x, w.within("shortcut."))), shape(3, 4));
        add("Flatten", "", g -> new Flatten(), (x, w) -> torch.flatten(x, 1, -1), shape(2, 3, 4), shape(2, 3),
                shape(1, 2, 1, 3));
    }

    private static TorchFunction conv(int rank, int stride, int padding, int dilation, int groups) {
        long[] s = all(rank, stride);
        long[] p = all(rank, padding);
        long[] d = all(rank, dilation);
        return (x, w) -> switch (rank) {
            case 1 -> torch.conv1d(x, w.of("weight"), w.optional("bias"), s, p, d, groups);
            case 2 -> torch.conv2d(x, w.of("weight"), w.optional("bias"), s, p, d, groups);
            default -> torch.conv3d(x, w.of("weight"), w.optional("bias"), s, p, d, groups);
        };
    }

    private static long[] all(int rank, long value) {
        long[] all = new long[rank];
        Arrays.fill(all, value);
        return all;
    }

    private static Conv.Builder ours(int rank, long in, long out, int kernel) {
        return switch (rank) {
            case 1 -> Conv1d.of(in, out, kernel);
            case 2 -> Conv2d.of(in, out, kernel);
            default -> Conv3d.of(in, out, kernel);
        };
    }

    private static long[] image(long n, long channels, int rank, long size) {
        long[] shape = new long[rank + 2];
        shape[0] = n;
        shape[1] = channels;
        for (int i = 0; i < rank; i++) {
            shape[i + 2] = size + i;
        }
        return shape;
    }

    private static void convolutions() {
        for (int rank = 1; rank <= 3; rank++) {
            int r = rank;
            String row = "Conv" + rank + "d.of";
            add(row, "", g -> ours(r, 2, 3, 3).build(g), conv(r, 1, 0, 1, 1), image(2, 2, r, 4), image(1, 2, r, 3));
            add(row, "with stride and padding", g -> ours(r, 2, 3, 3).stride(2).padding(1).withoutBias().build(g),
                    conv(r, 2, 1, 1, 1), image(2, 2, r, 5), image(1, 2, r, 1));
            add(row, "dilated", g -> ours(r, 2, 4, 2).dilation(2).padding(2).build(g), conv(r, 1, 2, 2, 1),
                    image(2, 2, r, 4));
            add(row, "in groups", g -> ours(r, 4, 6, 2).groups(2).build(g), conv(r, 1, 0, 1, 2), image(2, 4, r, 3));
            add(row, "of each channel", g -> ours(r, 3, 3, 3).groups(3).padding(1).build(g), conv(r, 1, 1, 1, 3),
                    image(2, 3, r, 3));
            add(row, "of points", g -> ours(r, 5, 2, 1).build(g), conv(r, 1, 0, 1, 1), image(2, 5, r, 1));
        }
        add("Conv2d.of", "by pairs", g -> Conv2d.of(2, 3, 3, 1).stride(1, 2).padding(1, 0).dilation(2, 1).build(g),
                (x, w) -> torch.conv2d(x, w.of("weight"), w.optional("bias"), shape(1, 2), shape(1, 0), shape(2, 1), 1),
                shape(2, 2, 6, 5));
    }

    private static void transposedConvolutions() {
        add("Conv1d.of", "transposed", g -> Conv1d.of(3, 2, 3).stride(2).padding(1).transposed(1).build(g), (x, w) ->
                torch.conv_transpose1d(x, w.of("weight"), w.optional("bias"), shape(2), shape(1), shape(1), 1,
                        shape(1)), shape(2, 3, 4), shape(1, 3, 1));
        add("Conv2d.of", "transposed in groups", g -> Conv2d.of(4, 6, 2).stride(2).groups(2).transposed().build(g),
                (x, w) -> torch.conv_transpose2d(x, w.of("weight"), w.optional("bias"), shape(2, 2), shape(0, 0),
                        shape(0, 0), 2, shape(1, 1)), shape(2, 4, 3, 2));
        add("Conv2d.of", "transposed and dilated", g -> Conv2d.of(2, 3, 3).dilation(2).withoutBias().transposed()
                .build(g), (x, w) -> torch.conv_transpose2d(x, w.of("weight"), w.optional("bias"), shape(1, 1),
                        shape(0, 0), shape(0, 0), 1, shape(2, 2)), shape(2, 2, 3, 2));
        add("Conv3d.of", "transposed", g -> Conv3d.of(2, 3, 2).stride(2).transposed().build(g), (x, w) ->
                torch.conv_transpose3d(x, w.of("weight"), w.optional("bias"), shape(2, 2, 2), shape(0, 0, 0),
                        shape(0, 0, 0), 1, shape(1, 1, 1)), shape(1, 2, 2, 3, 2));
    }

    private static TorchFunction batchNorm(boolean training, double momentum, double epsilon) {
        return (x, w) -> torch.batch_norm(x, w.optional("weight"), w.optional("bias"), w.optional("running_mean"),
                w.optional("running_var"), training, momentum, epsilon, false);
    }

    private static TorchFunction layerNorm(double epsilon, long... sizes) {
        return (x, w) -> torch.layer_norm(x, sizes, w.optional("weight"), w.optional("bias"), epsilon, false);
    }

    private static void norms() {
        long[][] images = {shape(4, 3), shape(2, 3, 5), shape(2, 3, 4, 5), shape(1, 3, 2, 2, 2)};
        add("BatchNorm.of", "", g -> BatchNorm.of(3), batchNorm(true, 0.1, 1e-5), images);
        add("BatchNorm.of", "with settings", g -> BatchNorm.of(3, 1e-2, 0.7), batchNorm(true, 0.7, 1e-2), images);
        inInference("BatchNorm.of", "", g -> BatchNorm.of(3), batchNorm(false, 0.1, 1e-5), shape(4, 3), shape(1, 3),
                shape(2, 3, 4, 5));
        add("LayerNorm.of", "", g -> LayerNorm.of(4), layerNorm(1e-5, 4), shape(3, 4), shape(4), shape(2, 3, 4));
        add("LayerNorm.of", "of matrices", g -> LayerNorm.of(4, 2), layerNorm(1e-5, 4, 2), shape(3, 4, 2),
                shape(2, 2, 4, 2));
        add("LayerNorm.of", "with another epsilon", g -> LayerNorm.withEpsilon(0.1, 5), layerNorm(0.1, 5),
                shape(3, 5));
        add("LayerNorm.of", "of one number", g -> LayerNorm.of(1), layerNorm(1e-5, 1), shape(3, 1));
        for (int groups : new int[] {1, 2, 4}) {
            add("GroupNorm.of", groups + " groups", g -> GroupNorm.of(groups, 4), (x, w) -> torch.group_norm(x, groups,
                    w.optional("weight"), w.optional("bias"), 1e-5, false), shape(3, 4, 2), shape(1, 4, 3, 2));
        }
        add("GroupNorm.of", "with another epsilon", g -> GroupNorm.withEpsilon(0.1, 2, 4), (x, w) -> torch.group_norm(x,
                2, w.optional("weight"), w.optional("bias"), 0.1, false), shape(3, 4, 2));
        add("GroupNorm.of", "of rows", g -> GroupNorm.of(2, 6), (x, w) -> torch.group_norm(x, 2, w.optional("weight"),
                w.optional("bias"), 1e-5, false), shape(3, 6));
        TorchFunction instance = (x, w) -> torch.instance_norm(x, w.optional("weight"), w.optional("bias"),
                new TensorOptional(), new TensorOptional(), true, 0.1, 1e-5, false);
        add("InstanceNorm.of", "", g -> InstanceNorm.of(3), instance, shape(2, 3, 4), shape(2, 3, 4, 5),
                shape(1, 3, 2, 1, 2));
        add("InstanceNorm.of", "affine", g -> InstanceNorm.affine(3), instance, shape(2, 3, 4), shape(2, 3, 4, 5));
        add("RmsNorm.of", "", g -> RmsNorm.of(6), (x, w) -> torch.rms_norm(x, shape(6), w.optional("weight"),
                new DoubleOptional(1e-6)), shape(3, 6), shape(2, 1, 6));
        add("RmsNorm.of", "with another epsilon", g -> RmsNorm.withEpsilon(0.1, 6), (x, w) -> torch.rms_norm(x,
                shape(6), w.optional("weight"), new DoubleOptional(0.1)), shape(3, 6));
        add("RmsNorm.of", "of matrices", g -> RmsNorm.of(2, 3), (x, w) -> torch.rms_norm(x, shape(2, 3),
                w.optional("weight"), new DoubleOptional(1e-6)), shape(4, 2, 3));
    }

    private static void pools() {
        long[][] lines = {shape(2, 3, 11), shape(1, 1, 3), shape(2, 2, 4)};
        long[][] images = {shape(2, 3, 7, 5), shape(1, 1, 3, 3), shape(2, 2, 4, 3)};
        long[][] volumes = {shape(2, 3, 5, 6, 7), shape(1, 1, 3, 3, 3)};
        for (int[] s : new int[][] {{3, 2, 1}, {2, 2, 0}, {3, 1, 0}, {2, 3, 1}}) {
            long[][] k = new long[4][];
            for (int rank = 1; rank <= 3; rank++) {
                k[rank] = all(rank, 1);
            }
            String name = Arrays.toString(s);
            add("MaxPool1d", name, g -> new MaxPool1d(s[0], s[1], s[2]), (x, w) -> torch.max_pool1d(x, all(1, s[0]),
                    all(1, s[1]), all(1, s[2]), k[1], false), lines);
            add("MaxPool2d", name, g -> new MaxPool2d(s[0], s[1], s[2]), (x, w) -> torch.max_pool2d(x, all(2, s[0]),
                    all(2, s[1]), all(2, s[2]), k[2], false), images);
            add("MaxPool3d", name, g -> new MaxPool3d(s[0], s[1], s[2]), (x, w) -> torch.max_pool3d(x, all(3, s[0]),
                    all(3, s[1]), all(3, s[2]), k[3], false), volumes);
            add("AvgPool1d", name, g -> new AvgPool1d(s[0], s[1], s[2]), (x, w) -> torch.avg_pool1d(x, all(1, s[0]),
                    all(1, s[1]), all(1, s[2]), false, true), lines);
            add("AvgPool2d", name, g -> new AvgPool2d(s[0], s[1], s[2]), (x, w) -> torch.avg_pool2d(x, all(2, s[0]),
                    all(2, s[1]), all(2, s[2]), false, true, new LongOptional()), images);
            add("AvgPool3d", name, g -> new AvgPool3d(s[0], s[1], s[2]), (x, w) -> torch.avg_pool3d(x, all(3, s[0]),
                    all(3, s[1]), all(3, s[2]), false, true, new LongOptional()), volumes);
        }
        for (int[] s : new int[][] {{3, 2}, {1, 1}, {5, 4}}) {
            add("AdaptiveAvgPool2d", Arrays.toString(s), g -> new AdaptiveAvgPool2d(s[0], s[1]), (x, w) ->
                    torch.adaptive_avg_pool2d(x, s[0], s[1]), images);
            add("AdaptiveMaxPool2d", Arrays.toString(s), g -> new AdaptiveMaxPool2d(s[0], s[1]), (x, w) ->
                    torch.adaptive_max_pool2d(x, s[0], s[1]).get0(), images);
        }
        add("GlobalAvgPool", "", g -> new GlobalAvgPool(), (x, w) -> torch.flatten(x, 2, -1).mean(new long[] {2},
                false, new org.bytedeco.pytorch.ScalarTypeOptional()), shape(2, 3, 4), shape(2, 3, 4, 5),
                shape(1, 1, 1, 1), shape(1, 2, 3, 2, 2));
    }

    private static TorchFunction bilinear(long height, long width) {
        return (x, w) -> torch.upsample_bilinear2d(x, shape(height, width), false);
    }

    /** The definition of PyTorch's {@code antialias=True}, which its interface for C++ does not have. */
    private static TorchFunction antialiased(int height, int width, boolean cubic) {
        return (x, w) -> torch.matmul(torch.matmul(means(height, x.size(2), cubic), x), means(width, x.size(3), cubic)
                .t());
    }

    private static Tensor means(int to, long from, boolean cubic) {
        double scale = (double) from / to;
        double support = Math.max(1, scale);
        double reach = cubic ? 2 * support : support;
        double[] weights = new double[to * (int) from];
        for (int i = 0; i < to; i++) {
            double centre = scale * (i + 0.5);
            int first = Math.max(0, (int) (centre - reach + 0.5));
            int end = (int) Math.min(from, (long) (centre + reach + 0.5));
            double sum = 0;
            for (int k = first; k < end; k++) {
                double d = Math.abs((k - centre + 0.5) / support);
                weights[i * (int) from + k] = !cubic ? Math.max(0, 1 - d) : d < 1 ? (1.5 * d - 2.5) * d * d + 1
                        : d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
                sum += weights[i * (int) from + k];
            }
            for (int k = first; k < end; k++) {
                weights[i * (int) from + k] /= sum;
            }
        }
        return Torch.tensor(weights, to, from);
    }

    private static void images() {
        long[][] images = {shape(2, 3, 4, 5), shape(1, 1, 1, 1), shape(2, 2, 1, 6), shape(1, 2, 9, 7)};
        for (int[] s : new int[][] {{7, 3}, {1, 1}, {4, 5}, {2, 13}}) {
            String name = Arrays.toString(s);
            add("Resize", name, g -> new Resize(s[0], s[1], false), bilinear(s[0], s[1]), images);
            add("Resize", name + " antialiased", g -> new Resize(s[0], s[1], true), antialiased(s[0], s[1], false),
                    images);
            add("Resize", name + " cubic", g -> new Resize(s[0], s[1], Upsample.Method.BICUBIC, false), (x, w) ->
                    torch.upsample_bicubic2d(x, shape(s[0], s[1]), false), images);
            add("Resize", name + " cubic antialiased", g -> new Resize(s[0], s[1], Upsample.Method.BICUBIC, true),
                    antialiased(s[0], s[1], true), images);
            add("Resize", name + " nearest", g -> new Resize(s[0], s[1], Upsample.Method.NEAREST, false), (x, w) ->
                    torch.upsample_nearest2d(x, s[0], s[1]), images);
        }
        for (int factor : new int[] {1, 2, 3}) {
            add("Upsample", "nearest " + factor, g -> Upsample.nearest(factor), (x, w) -> torch.upsample_nearest2d(x,
                    x.size(2) * factor, x.size(3) * factor), images);
            add("Upsample", "bilinear " + factor, g -> Upsample.bilinear(factor), (x, w) -> bilinear(
                    x.size(2) * factor, x.size(3) * factor).of(x, w), images);
            add("Upsample", "bicubic " + factor, g -> Upsample.bicubic(factor), (x, w) -> torch.upsample_bicubic2d(x,
                    shape(x.size(2) * factor, x.size(3) * factor), false), images);
        }
        add("PixelShuffle", "", g -> new PixelShuffle(2), (x, w) -> torch.pixel_shuffle(x, 2), shape(2, 8, 3, 4),
                shape(1, 4, 1, 1));
        add("PixelUnshuffle", "", g -> new PixelUnshuffle(3), (x, w) -> torch.pixel_unshuffle(x, 3), shape(2, 2, 6, 9),
                shape(1, 1, 3, 3));
    }

    private static void indices(String row, String name, Function<Generator, Layer> ours, TorchFunction theirs,
            long[]... shapes) {
        ALL.add(new LayerCase(row, name, ours, theirs, Input.INDICES, true, shapes));
    }

    /** Returns a table whose row of the padding is 0, as PyTorch initialises it; our layer does not read this row. */
    private static Tensor padded(Tensor table, long padding) {
        Tensor kept = torch.ones_like(table.detach());
        kept.select(0, padding).zero_();
        return table.mul(kept);
    }

    private static void embeddings() {
        long[][] indices = {shape(2, 3), shape(1, 1), shape(4, 7), shape(2, 0)};
        indices("Embedding.of", "", g -> Embedding.of(5, 3, g), (x, w) -> torch.embedding(w.of("weight"), x),
                shape(2, 3), shape(1), shape(2, 2, 2));
        indices("Embedding.of", "with padding", g -> Embedding.of(5, 3, g).padding(2), (x, w) ->
                torch.embedding(padded(w.of("weight"), 2), x, 2, false, false), indices);
        for (EmbeddingBag.Join join : EmbeddingBag.Join.values()) {
            indices("EmbeddingBag.of", join.toString(), g -> EmbeddingBag.of(5, 3, join, g), bag(join,
                    new LongOptional()), indices);
            indices("EmbeddingBag.of", join + " with padding", g -> EmbeddingBag.of(5, 3, join, g).padding(1),
                    bag(join, new LongOptional(1)), indices);
        }
    }

    private static TorchFunction bag(EmbeddingBag.Join join, LongOptional padding) {
        return (x, w) -> torch.embedding_bag(w.of("weight"), torch.flatten(x), torch.arange(new Scalar(0), new Scalar(
                x.size(0))).mul(new Scalar(x.size(1))).toType(torch.ScalarType.Long), false, join.ordinal(), false,
                new TensorOptional(), false, padding).get0();
    }

    /** Returns a weight with rows of length 1. */
    private static Tensor directions(Tensor weight) {
        long[] others = new long[(int) weight.dim() - 1];
        Arrays.setAll(others, i -> i + 1);
        return weight.div(torch.norm(weight, new ScalarOptional(new Scalar(2)), others, true));
    }

    /** Divides a weight by the singular value that one more iteration from the estimated vectors gives, or none. */
    private static Tensor spectral(Tensor weight, Weights w, boolean training) {
        Tensor matrix = torch.flatten(weight, 1, -1);
        Tensor u = w.of("left");
        Tensor v = w.of("right");
        if (training) {
            Tensor constant = matrix.detach();
            v.copy_(torch.matmul(constant.t(), u)).div_(torch.norm(v));
            u.copy_(torch.matmul(constant, v)).div_(torch.norm(u));
        }
        return weight.div(torch.dot(u.clone(), torch.matmul(matrix, v.clone())));
    }

    private static void weights() {
        add("WeightNorm.of", "linear", g -> WeightNorm.of(Linear.of(4, 3, g)), (x, w) -> torch.linear(x, directions(
                w.of("layer.weight")).mul(w.of("length")), w.optional("layer.bias")), shape(5, 4), shape(2, 3, 4));
        add("WeightNorm.of", "conv", g -> WeightNorm.of(Conv2d.of(2, 3, 2).build(g)), (x, w) -> torch.conv2d(x,
                directions(w.of("layer.weight")).mul(w.of("length")), w.optional("layer.bias"), shape(1, 1),
                shape(0, 0), shape(1, 1), 1), shape(2, 2, 3, 4));
        for (boolean training : new boolean[] {true, false}) {
            ALL.add(new LayerCase("SpectralNorm.of", "linear " + training, g -> SpectralNorm.of(Linear.of(4, 3, g), g),
                    (x, w) -> torch.linear(x, spectral(w.of("layer.weight"), w, training), w.optional("layer.bias")),
                    Input.NUMBERS, training, shape(5, 4), shape(1, 4)));
            ALL.add(new LayerCase("SpectralNorm.of", "conv " + training, g -> SpectralNorm.of(Conv2d.of(2, 3, 2)
                    .build(g), g), (x, w) -> torch.conv2d(x, spectral(w.of("layer.weight"), w, training),
                    w.optional("layer.bias"), shape(1, 1), shape(0, 0), shape(1, 1), 1), Input.NUMBERS, training,
                    shape(2, 2, 3, 4)));
        }
        add("SpectralNorm.of", "transposed conv", g -> SpectralNorm.of(Conv2d.of(2, 3, 2).transposed().build(g), g),
                (x, w) -> torch.conv_transpose2d(x, spectral(w.of("layer.weight").transpose(0, 1), w, true)
                        .transpose(0, 1), w.optional("layer.bias"), shape(1, 1), shape(0, 0), shape(0, 0), 1,
                        shape(1, 1)), shape(2, 2, 3, 4));
    }
}
