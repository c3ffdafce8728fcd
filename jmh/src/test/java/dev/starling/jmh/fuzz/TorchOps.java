package dev.starling.jmh.fuzz;

import dev.starling.jmh.fuzz.NetPair.Kind;
import dev.starling.jmh.fuzz.NetPair.TorchFunction;
import dev.starling.jmh.fuzz.NetPair.TorchState;
import dev.starling.nn.Parameter;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** The functions of Starling's layers in terms of libtorch's operations. */
final class TorchOps {
    static final TorchFunction RELU = (x, s) -> torch.relu(x);
    static final TorchFunction GELU = (x, s) -> torch.gelu(x, "none");
    static final TorchFunction GELU_TANH = (x, s) -> torch.gelu(x, "tanh");
    static final TorchFunction SILU = (x, s) -> torch.silu(x);
    static final TorchFunction TANH = (x, s) -> torch.tanh(x);
    static final TorchFunction SIGMOID = (x, s) -> torch.sigmoid(x);
    static final TorchFunction SOFTPLUS = (x, s) -> torch.softplus(x);
    static final TorchFunction ELU = (x, s) -> torch.elu(x);
    static final TorchFunction LEAKY_RELU = (x, s) -> torch.leaky_relu(x, new Scalar(0.1));
    private static final double EPSILON = 1e-5;

    private TorchOps() { }

    static TorchFunction softmax(int axis) {
        return (x, s) -> torch.softmax(x, axis);
    }

    private static TensorOptional optional(TorchState s, Parameter p) {
        return p == null ? new TensorOptional() : new TensorOptional(s.of(p));
    }

    static Tensor linear(Tensor x, TorchState s, Parameter weight, Parameter bias) {
        return torch.linear(x, s.of(weight), optional(s, bias));
    }

    static Tensor embedding(Tensor x, TorchState s, Parameter table) {
        return torch.embedding(s.of(table), x);
    }

    static Tensor conv(Tensor x, TorchState s, Parameter weight, Parameter bias, int stride, int padding, int dilation,
            int groups) {
        return x.dim() == 4
                ? torch.conv2d(x, s.of(weight), optional(s, bias), new long[] {stride, stride},
                        new long[] {padding, padding}, new long[] {dilation, dilation}, groups)
                : torch.conv1d(x, s.of(weight), optional(s, bias), new long[] {stride}, new long[] {padding},
                        new long[] {dilation}, groups);
    }

    /**
     * Perturbs a normalisation as its roundings perturb result and gradient. Of two different numbers, the result is 1
     * and -1 but for some ppm, whatever they are, and a second normalisation may be left with the ppm. Gradients are
     * differences of numbers as large as the result's gradient over the deviation; what is left may be too small to be
     * perturbed in proportion. Numbers that are far from 0 and nearly equal lose their differences to roundings, as
     * does the gradient of a weight.
     *
     * @param normalize normalises numbers, without other effects
     * @param y {@code x} normalised
     * @param groups {@code x} in a shape whose listed dimensions are normalised together
     */
    private static Tensor rough(UnaryOperator<Tensor> normalize, Tensor y, Tensor x, TorchState s, Tensor groups,
            double epsilon, long... together) {
        if (s.perturbation() == 0) {
            return y;
        }
        Tensor detached = groups.detach();
        Tensor centred = detached.sub(mean(detached, together));
        Tensor scale = torch.rsqrt(mean(centred.mul(centred), together).add(new Scalar(epsilon)))
                .expand_as(groups).reshape(x.sizes());
        Tensor same = normalize.apply(x.detach());
        return rounded(y, s).add(x.sub(x.detach()).mul(scale).mul(noise(y, s)))
                .add(normalize.apply(rounded(x.detach(), s)).sub(same)).add(same.sub(same.detach()).mul(noise(y, s)));
    }

    private static Tensor rounded(Tensor y, TorchState s) {
        return y.add(y.detach().mul(noise(y, s)));
    }

    private static Tensor mean(Tensor x, long... axes) {
        return x.mean(axes, true, new ScalarTypeOptional());
    }

    static Tensor batchNorm(Tensor x, TorchState s, Map<String, Parameter> p) {
        long[] axes = new long[Math.toIntExact(x.dim()) - 1];
        for (int i = 1; i < axes.length; i++) {
            axes[i] = i + 1;
        }
        return rough(z -> batchNorm(z, s, p, null, null),
                batchNorm(x, s, p, p.get("running_mean"), p.get("running_var")), x, s, x, EPSILON, axes);
    }

    private static Tensor batchNorm(Tensor x, TorchState s, Map<String, Parameter> p, Parameter mean,
            Parameter variance) {
        return torch.batch_norm(x, optional(s, p.get("weight")), optional(s, p.get("bias")), optional(s, mean),
                optional(s, variance), true, 0.1, EPSILON, false);
    }

    static Tensor layerNorm(Tensor x, TorchState s, Map<String, Parameter> p) {
        UnaryOperator<Tensor> normalize = z -> torch.layer_norm(z, p.get("weight").shape().dims(),
                optional(s, p.get("weight")), optional(s, p.get("bias")), EPSILON, false);
        return rough(normalize, normalize.apply(x), x, s, x, EPSILON, -1);
    }

    static Tensor groupNorm(Tensor x, TorchState s, int groups, Map<String, Parameter> p) {
        UnaryOperator<Tensor> normalize = z -> torch.group_norm(z, groups, optional(s, p.get("weight")),
                optional(s, p.get("bias")), EPSILON, false);
        return rough(normalize, normalize.apply(x), x, s, x.reshape(x.size(0), groups, -1), EPSILON, -1);
    }

    static Tensor rmsNorm(Tensor x, TorchState s, Map<String, Parameter> p) {
        Tensor scale = torch.rsqrt(mean(x.mul(x), -1).add(new Scalar(1e-6)));
        Tensor y = x.mul(scale).mul(s.of(p.get("weight")));
        return s.perturbation() == 0 ? y
                : rounded(y, s).add(x.sub(x.detach()).mul(scale.detach()).mul(noise(y, s)));
    }

    /** Returns random factors of the shape of {@code y}, within the perturbation on either side of 0. */
    private static Tensor noise(Tensor y, TorchState s) {
        return torch.rand_like(y.detach()).mul(new Scalar(2 * s.perturbation())).sub(new Scalar(s.perturbation()));
    }

    static Tensor pool(Tensor x, boolean max) {
        return max ? torch.max_pool2d(x, 2, 2) : torch.avg_pool2d(x, 2, 2);
    }

    static Tensor globalPool(Tensor x, TorchState s) {
        return torch.flatten(torch.adaptive_avg_pool2d(x, 1, 1), 1, -1);
    }

    static Tensor flatten(Tensor x, TorchState s) {
        return torch.flatten(x, 1, -1);
    }

    static Tensor concat(int axis, Tensor left, Tensor right) {
        return torch.cat(new TensorVector(left, right), axis);
    }

    static Tensor recurrent(Kind kind, Tensor x, TorchState s, Map<String, Parameter> parameters, int layers,
            boolean both, boolean last, int units) {
        List<Parameter> all = List.copyOf(parameters.values());
        TensorVector weights = new TensorVector(all.stream().map(s::of).toArray(Tensor[]::new));
        Tensor h = torch.zeros(new long[] {layers * (both ? 2L : 1), x.size(0), units},
                new TensorOptions(torch.ScalarType.Double));
        Tensor y = switch (kind) {
            case LSTM -> torch.lstm(x, new TensorVector(h, h), weights, true, layers, 0, true, both, true).get0();
            case GRU -> torch.gru(x, h, weights, true, layers, 0, true, both, true).get0();
            default -> torch.rnn_tanh(x, h, weights, true, layers, 0, true, both, true).get0();
        };
        if (!last) {
            return y;
        }
        Tensor end = y.select(1, x.size(1) - 1);
        return !both ? end : torch.cat(new TensorVector(end.narrow(1, 0, units), y.select(1, 0).narrow(1, units,
                units)), 1);
    }

    static Tensor attention(Tensor x, TorchState s, Map<String, Parameter> p, int heads, boolean causal) {
        long n = x.size(0);
        long length = x.size(1);
        long width = x.size(2);
        long head = width / heads;
        Tensor all = linear(x, s, p.get("project.weight"), p.get("project.bias")).reshape(n, length, 3, heads, head)
                .permute(2, 0, 3, 1, 4);
        Tensor scores = torch.matmul(all.select(0, 0), all.select(0, 1).permute(0, 1, 3, 2))
                .mul(new Scalar(1 / Math.sqrt(head)));
        if (causal) {
            Tensor later = torch.triu(torch.ones(new long[] {length, length}), 1).toType(torch.ScalarType.Bool);
            scores = torch.masked_fill(scores, later, new Scalar(Double.NEGATIVE_INFINITY));
        }
        Tensor mixed = torch.matmul(torch.softmax(scores, -1), all.select(0, 2)).permute(0, 2, 1, 3)
                .reshape(n, length, width);
        return linear(mixed, s, p.get("out.weight"), p.get("out.bias"));
    }
}
