package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Adagrad;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.AveragedWeights;
import dev.starling.nn.optim.ClipByValue;
import dev.starling.nn.optim.Lion;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Rmsprop;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.AdagradOptions;
import org.bytedeco.pytorch.AdamOptions;
import org.bytedeco.pytorch.AdamWOptions;
import org.bytedeco.pytorch.RMSprop;
import org.bytedeco.pytorch.RMSpropOptions;
import org.bytedeco.pytorch.SGD;
import org.bytedeco.pytorch.SGDOptions;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Ten steps of each optimiser, Starling's and PyTorch's, from equal weights. */
class OptimizerParityTest {
    private static final int STEPS = 10;
    private static final double RATE = 0.05;
    private static final int ROWS = 5;
    private static final int COLUMNS = 7;

    /** Performs one step of PyTorch. */
    private interface TorchStep {
        void take(org.bytedeco.pytorch.Tensor weight);
    }

    private record Pair(Function<Layer, Optimizer> ours, Function<TensorVector, TorchStep> theirs) { }

    private record Weights(Parameter weight) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return x.mul(weight.value()).add(weight.value().square());
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("weight", weight);
        }
    }

    private static final Map<String, Pair> PAIRS = new TreeMap<>(Map.ofEntries(
            Map.entry("sgd", new Pair(m -> Sgd.over(m).rate(RATE).build(), w -> sgd(w, 0, 0, false))),
            Map.entry("momentum and decay", new Pair(m -> Sgd.over(m).rate(RATE).momentum(0.9).weightDecay(0.1)
                    .build(), w -> sgd(w, 0.9, 0.1, false))),
            Map.entry("nesterov", new Pair(m -> Sgd.over(m).rate(RATE).momentum(0.8).nesterov().build(),
                    w -> sgd(w, 0.8, 0, true))),
            Map.entry("adam", new Pair(m -> Adam.over(m).rate(RATE).weightDecay(0.1).build(), w -> {
                AdamOptions options = new AdamOptions(RATE);
                options.weight_decay().put(0.1);
                return stepping(new org.bytedeco.pytorch.Adam(w, options));
            })),
            Map.entry("adamw", new Pair(m -> AdamW.over(m).rate(RATE).build(), w -> {
                AdamWOptions options = new AdamWOptions(RATE);
                options.weight_decay().put(0.01);
                return stepping(new org.bytedeco.pytorch.AdamW(w, options));
            })),
            Map.entry("adagrad", new Pair(m -> Adagrad.over(m).rate(RATE).initialSum(0.1).build(), w -> {
                AdagradOptions options = new AdagradOptions(RATE);
                options.initial_accumulator_value().put(0.1);
                return stepping(new org.bytedeco.pytorch.Adagrad(w, options));
            })),
            Map.entry("rmsprop", new Pair(m -> Rmsprop.over(m).rate(RATE).weightDecay(0.1).build(),
                    w -> rmsprop(w, 0.99, 0, 0.1, false))),
            Map.entry("rmsprop with momentum", new Pair(m -> Rmsprop.over(m).rate(RATE).decay(0.9).momentum(0.9)
                    .build(), w -> rmsprop(w, 0.9, 0.9, 0, false))),
            Map.entry("centred rmsprop", new Pair(m -> Rmsprop.over(m).rate(RATE).decay(0.9).centred().build(),
                    w -> rmsprop(w, 0.9, 0, 0, true))),
            Map.entry("centred rmsprop with momentum", new Pair(m -> Rmsprop.over(m).rate(RATE).decay(0.9)
                    .momentum(0.5).centred().build(), w -> rmsprop(w, 0.9, 0.5, 0, true))),
            Map.entry("lion", new Pair(m -> Lion.over(m).rate(RATE).weightDecay(0.1).build(), w -> lion(0.1))),
            Map.entry("clipped by value", new Pair(m -> ClipByValue.of(Sgd.over(m).rate(RATE).build(), 0.3), w -> {
                TorchStep sgd = sgd(w, 0, 0, false);
                return weight -> {
                    torch.clip_grad_value_(weight, 0.3);
                    sgd.take(weight);
                };
            })),
            Map.entry("averaged", new Pair(m -> AveragedWeights.exponential(Sgd.over(m).rate(RATE).build(), 0.9),
                    w -> sgd(w, 0, 0, false)))));

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    private static TorchStep stepping(org.bytedeco.pytorch.Optimizer optimizer) {
        return weight -> optimizer.step();
    }

    private static TorchStep sgd(TensorVector weights, double momentum, double decay, boolean nesterov) {
        SGDOptions options = new SGDOptions(RATE);
        options.momentum().put(momentum);
        options.weight_decay().put(decay);
        options.nesterov().put(nesterov);
        return stepping(new SGD(weights, options));
    }

    private static TorchStep rmsprop(TensorVector weights, double alpha, double momentum, double decay,
            boolean centred) {
        RMSpropOptions options = new RMSpropOptions(RATE);
        options.alpha().put(alpha);
        options.momentum().put(momentum);
        options.weight_decay().put(decay);
        options.centered().put(centred);
        return stepping(new RMSprop(weights, options));
    }

    /** The paper's formulas in PyTorch's operations, which has no such optimiser. */
    private static TorchStep lion(double decay) {
        org.bytedeco.pytorch.Tensor mean = torch.zeros(new long[] {ROWS, COLUMNS});
        return weight -> {
            org.bytedeco.pytorch.Tensor g = weight.grad();
            org.bytedeco.pytorch.Tensor step = torch.sign(mean.mul(new Scalar(0.9)).add(g.mul(new Scalar(0.1))));
            weight.detach().mul_(new Scalar(1 - RATE * decay)).sub_(step.mul(new Scalar(RATE)));
            mean.mul_(new Scalar(0.99)).add_(g.mul(new Scalar(0.01)));
        };
    }

    static Stream<String> optimizers() {
        return PAIRS.keySet().stream();
    }

    @ParameterizedTest
    @MethodSource("optimizers")
    void stepsAsPyTorchDoes(String name) {
        Pair pair = PAIRS.get(name);
        float[] start = Inputs.normal(1, ROWS, COLUMNS);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                Weights ours = new Weights(Parameter.of(Tensor.of(start, ROWS, COLUMNS)));
                Optimizer optimizer = pair.ours.apply(ours)) {
            org.bytedeco.pytorch.Tensor weight = Torch.tensor(start, ROWS, COLUMNS).set_requires_grad(true);
            TorchStep torchStep = pair.theirs.apply(new TensorVector(weight));
            for (int step = 1; step <= STEPS; step++) {
                float[] x = Inputs.normal(10 + step, ROWS, COLUMNS);
                Tensor input = Tensor.of(x, ROWS, COLUMNS);
                Tape tape = new Tape().watch(optimizer.watched());
                Tensor loss = tape.record(() -> ours.forward(input).sum());
                optimizer.step(tape.backward(loss));
                if (step > 1) {
                    weight.grad().zero_();
                }
                Torch.tensor(x, ROWS, COLUMNS).mul(weight).add(weight.mul(weight)).sum().backward();
                torchStep.take(weight);
                assertThat(ours.weight.value().toFloats()).as("step %d", step)
                        .usingComparatorWithPrecision(2e-5f).containsExactly(Torch.floats(weight.detach()));
            }
        }
    }
}
