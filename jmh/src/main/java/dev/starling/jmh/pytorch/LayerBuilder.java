package dev.starling.jmh.pytorch;

import dev.starling.jmh.pytorch.TorchModel.Layer;
import dev.starling.jmh.pytorch.TorchModel.Layout;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Makes PyTorch layers and collects their parameters in order. ReLU works in place, as in PyTorch's own networks. */
final class LayerBuilder {
    static final Layer RELU = input -> {
        torch.relu_(input);
        return input;
    };
    static final Layer GELU = input -> torch.gelu(input, "tanh");
    static final Layer FLATTEN = input -> torch.flatten(input, 1, -1);
    static final Layer MAX_POOL = input -> torch.max_pool2d(input, 2, 2);
    static final Layer GLOBAL_AVERAGE = input -> torch.adaptive_avg_pool2d(input, 1, 1);
    private static final int HEADS = 4;
    private static final double BATCH_NORM_MOMENTUM = 0.1;
    private static final double EPSILON = 1e-5;

    private final List<Pointer> owned = new ArrayList<>();
    private final List<Tensor> parameters = new ArrayList<>();
    private final List<Tensor> statistics = new ArrayList<>();
    private final SplittableRandom random = new SplittableRandom(42);
    private final Layout layout;
    private final boolean folded;

    /** Makes a builder; {@code folded} puts a bias of the convolution in the place of each batch norm. */
    LayerBuilder(Layout layout, boolean folded) {
        this.layout = layout;
        this.folded = folded;
    }

    Layout layout() {
        return layout;
    }

    /** Returns the pointers that outlive the scope in which they were made; the caller releases each once. */
    List<Pointer> owned() {
        return owned;
    }

    <P extends Pointer> P own(P pointer) {
        pointer.retainReference();
        owned.add(pointer);
        return pointer;
    }

    List<Tensor> parameters() {
        return List.copyOf(parameters);
    }

    List<Tensor> statistics() {
        return List.copyOf(statistics);
    }

    Layer linear(int inputs, int outputs) {
        Tensor weight = weight(inputs, outputs, inputs);
        TensorOptional bias = own(new TensorOptional(constant(0, outputs)));
        return input -> torch.linear(input, weight, bias);
    }

    Layer convolution(int inputs, int outputs, int kernel, int stride, boolean biased) {
        Tensor weight = weight(inputs * kernel * kernel, outputs, inputs, kernel, kernel);
        TensorOptional bias = biased || folded ? own(new TensorOptional(constant(0, outputs))) : Torch.none();
        long[] strides = {stride, stride};
        long[] padding = {kernel / 2, kernel / 2};
        long[] dilation = {1, 1};
        return input -> torch.conv2d(input, weight, bias, strides, padding, dilation, 1);
    }

    /** Layers of LSTM units, from {@code [N, T, inputs]} to the last state {@code [N, units]}. */
    Layer lstm(int inputs, int units, int layers) {
        Tensor[] weights = new Tensor[4 * layers];
        for (int i = 0; i < layers; i++) {
            weights[4 * i] = weight(2 * units, 4 * units, i == 0 ? inputs : units);
            weights[4 * i + 1] = weight(2 * units, 4 * units, units);
            weights[4 * i + 2] = constant(0, 4 * units);
            weights[4 * i + 3] = constant(0, 4 * units);
        }
        TensorVector all = own(new TensorVector(weights));
        return input -> {
            Tensor state = torch.zeros(layers, input.size(0), units);
            return torch.lstm(input, new TensorVector(state, state), all, true, layers, 0, true, false, true).get1()
                .select(0, layers - 1);
        };
    }

    Layer layerNorm(int width) {
        TensorOptional weight = own(new TensorOptional(constant(1, width)));
        TensorOptional bias = own(new TensorOptional(constant(0, width)));
        return input -> torch.layer_norm(input, new long[] {width}, weight, bias, EPSILON, true);
    }

    /** Layer norm and a layer of the same width, added to the input. */
    Layer residual(int width, IntFunction<Layer> layer) {
        Layer branch = layerNorm(width).then(layer.apply(width));
        return input -> branch.apply(input).add_(input);
    }

    /** Causal self-attention of 4 heads on {@code [N, L, width]}. */
    Layer attention(int width) {
        Layer project = linear(width, 3 * width);
        Layer out = linear(width, width);
        return input -> {
            long[] shape = {input.size(0), input.size(1), 3, HEADS, width / HEADS};
            Tensor parts = project.apply(input).view(shape).permute(2, 0, 3, 1, 4);
            Tensor mixed = torch.scaled_dot_product_attention(parts.select(0, 0), parts.select(0, 1),
                parts.select(0, 2), Torch.none(), 0, true, new DoubleOptional(), false);
            return out.apply(mixed.transpose(1, 2).reshape(input.size(0), input.size(1), width));
        };
    }

    Layer batchNorm(int channels) {
        if (folded) {
            return input -> input;
        }
        TensorOptional weight = own(new TensorOptional(constant(1, channels)));
        TensorOptional bias = own(new TensorOptional(constant(0, channels)));
        Tensor mean = own(torch.zeros(channels));
        Tensor variance = own(torch.ones(channels));
        statistics.add(mean);
        statistics.add(variance);
        TensorOptional runningMean = own(new TensorOptional(mean));
        TensorOptional runningVariance = own(new TensorOptional(variance));
        return input -> torch.batch_norm(
            input, weight, bias, runningMean, runningVariance, true, BATCH_NORM_MOMENTUM, EPSILON, true);
    }

    /** Two 3×3 convolutions with batch norm, added to the input, which is projected if the shapes differ. */
    Layer residualBlock(int inputs, int outputs, int stride) {
        Layer branch = convolution(inputs, outputs, 3, stride, false).then(batchNorm(outputs)).then(RELU)
            .then(convolution(outputs, outputs, 3, 1, false)).then(batchNorm(outputs));
        Layer shortcut = stride == 1 && inputs == outputs
            ? input -> input
            : convolution(inputs, outputs, 1, stride, false).then(batchNorm(outputs));
        Layer sum = input -> {
            Tensor output = branch.apply(input);
            output.add_(shortcut.apply(input));
            return output;
        };
        return sum.then(RELU);
    }

    /** Normal weights of variance 2 / inputs (He et al., 2015). */
    private Tensor weight(int fanIn, long... shape) {
        long size = 1;
        for (long extent : shape) {
            size *= extent;
        }
        float[] values = new float[Math.toIntExact(size)];
        double scale = Math.sqrt(2.0 / fanIn);
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (scale * random.nextGaussian());
        }
        return parameter(layout.apply(Torch.tensor(values, shape)));
    }

    private Tensor constant(float value, int size) {
        float[] values = new float[size];
        java.util.Arrays.fill(values, value);
        return parameter(Torch.tensor(values, size));
    }

    private Tensor parameter(Tensor values) {
        values.set_requires_grad(true);
        parameters.add(values);
        return own(values);
    }

}
