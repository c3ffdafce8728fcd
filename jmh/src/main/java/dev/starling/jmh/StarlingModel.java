package dev.starling.jmh;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;

/** PROVISIONAL: on tensor + autograd until nn lands. */
public final class StarlingModel implements AutoCloseable {
    private static final double EPS = 1e-5;
    private final List<Tensor> parameters = new ArrayList<>();
    private final List<Tensor> velocities = new ArrayList<>();
    private final List<Tensor> statistics = new ArrayList<>();
    private final Tape tape = new Tape();
    private final UnaryOperator<Tensor> network;
    private List<float[]> gradients = List.of();
    private final double learningRate;

    public StarlingModel(Model model, double learningRate) {
        this.learningRate = learningRate;
        network = switch (model) {
            case MLP -> seq(linear(784, 1024, true), linear(1024, 1024, true), linear(1024, 10, false));
            case CNN -> seq(conv(3, 32, 3, 1, true), conv(32, 32, 3, 1, true), x -> Pools.maxPool2d(x, 2, 2, 0),
                conv(32, 64, 3, 1, true), conv(64, 64, 3, 1, true), x -> Pools.maxPool2d(x, 2, 2, 0),
                x -> x.reshape(x.size(0), 4096), linear(4096, 512, true), linear(512, 10, false));
            case RESNET18 -> resnet();
        };
    }

    private UnaryOperator<Tensor> resnet() {
        UnaryOperator<Tensor> net = seq(conv(3, 64, 3, 1, false), bn(64, true));
        int c = 64;
        for (int w : new int[] {64, 128, 256, 512}) {
            net = seq(net, block(c, w, w == c ? 1 : 2), block(w, w, 1));
            c = w;
        }
        return seq(net, x -> x.mean(2, 3), linear(512, 10, false));
    }

    private UnaryOperator<Tensor> block(int in, int out, int stride) {
        UnaryOperator<Tensor> branch = seq(conv(in, out, 3, stride, false), bn(out, true), conv(out, out, 3, 1, false), bn(out, false));
        UnaryOperator<Tensor> cut = stride == 1 && in == out ? x -> x : seq(conv(in, out, 1, stride, false), bn(out, false));
        return x -> branch.apply(x).add(cut.apply(x)).relu();
    }

    @SafeVarargs
    private static UnaryOperator<Tensor> seq(UnaryOperator<Tensor>... layers) {
        return x -> {
            for (var l : layers) {
                x = l.apply(x);
            }
            return x;
        };
    }

    private UnaryOperator<Tensor> linear(int in, int out, boolean relu) {
        Tensor w = parameter(in, out, in);
        Tensor b = constant(0, out);
        return x -> relu ? Functions.linearRelu(x, w, b) : Functions.linear(x, w, b);
    }

    private UnaryOperator<Tensor> conv(int in, int out, int k, int stride, boolean relu) {
        Tensor w = parameter(in * k * k, out, in, k, k);
        Tensor b = relu ? constant(0, out) : null;
        Geometry g = Geometry.of(2, stride, k / 2, 1, 1);
        return x -> Convolutions.conv(x, w, b, g, relu ? Epilogue.RELU : Epilogue.NONE);
    }

    private UnaryOperator<Tensor> bn(int c, boolean relu) {
        Tensor w = constant(1, c);
        Tensor b = constant(0, c);
        Tensor mean = Tensor.zeros(c);
        Tensor var = Tensor.ones(c);
        statistics.add(mean);
        statistics.add(var);
        return x -> {
            Norms.Batch n = Norms.batchNorm(x, w, b, EPS, relu ? Epilogue.RELU : Epilogue.NONE);
            double count = (double) x.count() / c;
            Tensor.apply(new Update.Blend(0.9, 0.1), mean, n.mean());
            Tensor.apply(new Update.Blend(0.9, 0.1), var, n.variance(EPS).mul(count / (count - 1)));
            return n.y();
        };
    }

    private Tensor parameter(int fanIn, long... shape) {
        float[] v = Inputs.normal(parameters.size(), shape);
        for (int i = 0; i < v.length; i++) {
            v[i] *= (float) Math.sqrt(2.0 / fanIn);
        }
        return add(Tensor.of(v, shape));
    }

    private Tensor constant(float value, int n) {
        return add(Tensor.full(dev.starling.tensor.DType.F32, value, n));
    }

    private Tensor add(Tensor t) {
        parameters.add(t);
        velocities.add(Tensor.zeros(t.shape().dims()));
        return t;
    }

    public float step(Tensor batch, Tensor labels) {
        try (Scope step = Scope.open("step")) {
            tape.reset().watch(parameters);
            Tensor loss = tape.record(() -> Losses.crossEntropy(network.apply(batch), labels));
            Gradients g = tape.backward(loss);
            if (true) {
                gradients = parameters.stream().map(p -> g.of(p).toFloats()).toList();
            }
            for (int i = 0; i < parameters.size(); i++) {
                Tensor.apply(new Update.Sgd(learningRate, Model.MOMENTUM, 0, 0, false),
                    parameters.get(i), g.of(parameters.get(i)), velocities.get(i));
            }
            return (float) loss.item();
        }
    }

    public List<float[]> parameters() {
        return parameters.stream().map(Tensor::toFloats).toList();
    }

    public void parameters(List<float[]> values) {
        for (int i = 0; i < values.size(); i++) {
            Tensor p = parameters.get(i);
            try (Scope s = Scope.open()) {
                Tensor.apply(new Update.Assign(), p, Tensor.of(values.get(i), p.shape().dims()));
            }
        }
    }

    public List<float[]> gradients() {
        return gradients;
    }

    public List<float[]> statistics() {
        return statistics.stream().map(Tensor::toFloats).toList();
    }

    @Override
    public void close() {
        parameters.forEach(Tensor::close);
        velocities.forEach(Tensor::close);
        statistics.forEach(Tensor::close);
    }
}
