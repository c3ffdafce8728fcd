package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adafactor;
import dev.starling.nn.optim.Adagrad;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.AveragedWeights;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.ClipByValue;
import dev.starling.nn.optim.GradientNorms;
import dev.starling.nn.optim.Lamb;
import dev.starling.nn.optim.Lbfgs;
import dev.starling.nn.optim.Lion;
import dev.starling.nn.optim.Muon;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Rmsprop;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Stream;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.AdagradOptions;
import org.bytedeco.pytorch.AdamOptions;
import org.bytedeco.pytorch.AdamWOptions;
import org.bytedeco.pytorch.LBFGS;
import org.bytedeco.pytorch.LBFGSOptions;
import org.bytedeco.pytorch.LossClosure;
import org.bytedeco.pytorch.RMSprop;
import org.bytedeco.pytorch.RMSpropOptions;
import org.bytedeco.pytorch.SGD;
import org.bytedeco.pytorch.SGDOptions;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarTypeOptional;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Ten steps of each optimiser from equal weights, Starling's in f32 and f64 and PyTorch's in f64. Where its interface
 * for C++ has no such optimiser, the steps are those of {@code torch.optim} or of the paper in PyTorch's operations.
 */
class OptimizerParityTest {
    private static final int STEPS = 10;
    private static final double RATE = 0.05;
    private static final long[][] SHAPES = {{5, 7}, {7}, {3, 2, 4}, {1, 1}};
    private static final List<Pair> PAIRS = new ArrayList<>();

    static {
        descent();
        adaptive();
        wrapped();
    }

    /** Performs one step of PyTorch. */
    private interface TorchStep {
        void take(org.bytedeco.pytorch.Tensor weight);
    }

    private record Pair(String row, String name, Function<Layer, Optimizer> ours,
            Function<org.bytedeco.pytorch.Tensor, TorchStep> theirs) {
        @Override
        public String toString() {
            return row + " " + name;
        }
    }

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

    private static void add(String row, String name, Function<Layer, Optimizer> ours,
            Function<org.bytedeco.pytorch.Tensor, TorchStep> theirs) {
        PAIRS.add(new Pair(row, name, ours, theirs));
    }

    private static void descent() {
        add("Sgd.over", "", m -> Sgd.over(m).rate(RATE).build(), w -> sgd(w, 0, 0, false));
        add("Sgd.over", "with decay", m -> Sgd.over(m).rate(RATE).weightDecay(0.1).build(), w -> sgd(w, 0, 0.1, false));
        add("Sgd.over", "with momentum and decay", m -> Sgd.over(m).rate(RATE).momentum(0.9).weightDecay(0.1).build(),
                w -> sgd(w, 0.9, 0.1, false));
        add("Sgd.over", "Nesterov's, with decay", m -> Sgd.over(m).rate(RATE).momentum(0.8).nesterov().weightDecay(0.1)
                .build(), w -> sgd(w, 0.8, 0.1, true));
        add("Lion.over", "", m -> Lion.over(m).rate(RATE).build(), w -> lion(w, 0.9, 0.99, 0));
        add("Lion.over", "with settings", m -> Lion.over(m).rate(RATE).betas(0.5, 0.8).weightDecay(0.1).build(),
                w -> lion(w, 0.5, 0.8, 0.1));
        add("Muon.over", "", m -> Muon.over(m).rate(RATE).build(), w -> muon(w, 0.95, true, 0.1));
        add("Muon.over", "with settings", m -> Muon.over(m).rate(RATE).momentum(0.6, false).weightDecay(0).build(),
                w -> muon(w, 0.6, false, 0));
    }

    private static void adaptive() {
        for (boolean decoupled : new boolean[] {false, true}) {
            String row = decoupled ? "AdamW.over" : "Adam.over";
            Function<Layer, Adam.Builder> builder = decoupled ? AdamW::over : Adam::over;
            add(row, "", m -> builder.apply(m).rate(RATE).build(), w -> adam(w, decoupled, 0.9, 0.999, 1e-8,
                    decoupled ? 0.01 : 0));
            add(row, "with settings", m -> builder.apply(m).rate(RATE).betas(0.5, 0.9).epsilon(0.1).weightDecay(0.1)
                    .build(), w -> adam(w, decoupled, 0.5, 0.9, 0.1, 0.1));
        }
        add("Adagrad.over", "", m -> Adagrad.over(m).rate(RATE).build(), w -> adagrad(w, 1e-10, 0, 0));
        add("Adagrad.over", "with settings", m -> Adagrad.over(m).rate(RATE).initialSum(0.1).epsilon(0.01)
                .weightDecay(0.1).build(), w -> adagrad(w, 0.01, 0.1, 0.1));
        add("Rmsprop.over", "", m -> Rmsprop.over(m).rate(RATE).build(), w -> rmsprop(w, 0.99, 0, 0, false));
        add("Rmsprop.over", "with decay", m -> Rmsprop.over(m).rate(RATE).weightDecay(0.1).build(), w -> rmsprop(w,
                0.99, 0, 0.1, false));
        add("Rmsprop.over", "with momentum", m -> Rmsprop.over(m).rate(RATE).decay(0.9).momentum(0.9).build(),
                w -> rmsprop(w, 0.9, 0.9, 0, false));
        add("Rmsprop.over", "centred", m -> Rmsprop.over(m).rate(RATE).decay(0.9).centred().build(), w -> rmsprop(w,
                0.9, 0, 0, true));
        add("Rmsprop.over", "centred, with momentum", m -> Rmsprop.over(m).rate(RATE).decay(0.9).momentum(0.5).centred()
                .build(), w -> rmsprop(w, 0.9, 0.5, 0, true));
        add("Lamb.over", "", m -> Lamb.over(m).rate(RATE).build(), w -> lamb(w, 0.9, 0.999, 0.01));
        add("Lamb.over", "with settings", m -> Lamb.over(m).rate(RATE).betas(0.5, 0.9).weightDecay(0.1).build(),
                w -> lamb(w, 0.5, 0.9, 0.1));
        add("Adafactor.over", "", m -> Adafactor.over(m).rate(RATE).build(), w -> adafactor(w, RATE, -0.8, 1, 0));
        add("Adafactor.over", "with settings", m -> Adafactor.over(m).rate(0.6).decayExponent(-0.5).threshold(0.7)
                .weightDecay(0.1).build(), w -> adafactor(w, 0.6, -0.5, 0.7, 0.1));
    }

    private static void wrapped() {
        add("ClipByValue.of", "", m -> ClipByValue.of(Sgd.over(m).rate(RATE).build(), 0.3), w -> {
            TorchStep sgd = sgd(w, 0, 0, false);
            return weight -> {
                torch.clip_grad_value_(weight, 0.3);
                sgd.take(weight);
            };
        });
        for (double bound : new double[] {0.5, 1000}) {
            add("ClipByNorm.of", "" + bound, m -> ClipByNorm.of(Sgd.over(m).rate(RATE).build(), bound), w -> {
                TorchStep sgd = sgd(w, 0, 0, false);
                return weight -> {
                    // Theirs divides by the norm plus 10⁻⁶.
                    double norm = torch.norm(weight.grad()).item_double();
                    torch.clip_grad_norm_(weight, norm > bound ? bound * (1 + 1e-6 / norm) : bound);
                    sgd.take(weight);
                };
            });
        }
        add("GradientNorms.of", "", m -> GradientNorms.of(Sgd.over(m).rate(RATE).build()), w -> sgd(w, 0, 0, false));
        add("AveragedWeights.exponential", "", m -> AveragedWeights.exponential(Sgd.over(m).rate(RATE).build(), 0.9),
                w -> sgd(w, 0, 0, false));
        add("AveragedWeights.stochastic", "", m -> AveragedWeights.stochastic(Sgd.over(m).rate(RATE).build(), 2, 3),
                w -> sgd(w, 0, 0, false));
    }

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    private static TorchStep stepping(org.bytedeco.pytorch.Optimizer optimizer) {
        return weight -> optimizer.step();
    }

    private static TorchStep sgd(org.bytedeco.pytorch.Tensor w, double momentum, double decay, boolean nesterov) {
        SGDOptions options = new SGDOptions(RATE);
        options.momentum().put(momentum);
        options.weight_decay().put(decay);
        options.nesterov().put(nesterov);
        return stepping(new SGD(new TensorVector(w), options));
    }

    private static TorchStep adam(org.bytedeco.pytorch.Tensor w, boolean decoupled, double beta1, double beta2,
            double epsilon, double decay) {
        if (decoupled) {
            AdamWOptions options = new AdamWOptions(RATE);
            options.weight_decay().put(decay);
            options.eps().put(epsilon);
            betas(options.betas(), beta1, beta2);
            return stepping(new org.bytedeco.pytorch.AdamW(new TensorVector(w), options));
        }
        AdamOptions options = new AdamOptions(RATE);
        options.weight_decay().put(decay);
        options.eps().put(epsilon);
        betas(options.betas(), beta1, beta2);
        return stepping(new org.bytedeco.pytorch.Adam(new TensorVector(w), options));
    }

    /** Sets a pair, which libraries of C++ store in one order or the other. */
    private static void betas(DoublePointer pair, double beta1, double beta2) {
        int first = pair.get(0) == 0.9 ? 0 : 1;
        pair.put(first, beta1).put(1 - first, beta2);
    }

    private static TorchStep adagrad(org.bytedeco.pytorch.Tensor w, double epsilon, double decay, double initial) {
        AdagradOptions options = new AdagradOptions(RATE);
        options.initial_accumulator_value().put(initial);
        options.eps().put(epsilon);
        options.weight_decay().put(decay);
        return stepping(new org.bytedeco.pytorch.Adagrad(new TensorVector(w), options));
    }

    private static TorchStep rmsprop(org.bytedeco.pytorch.Tensor w, double alpha, double momentum, double decay,
            boolean centred) {
        RMSpropOptions options = new RMSpropOptions(RATE);
        options.alpha().put(alpha);
        options.momentum().put(momentum);
        options.weight_decay().put(decay);
        options.centered().put(centred);
        return stepping(new RMSprop(new TensorVector(w), options));
    }

    private static void towards(org.bytedeco.pytorch.Tensor mean, org.bytedeco.pytorch.Tensor value, double share) {
        mean.mul_(new Scalar(1 - share)).add_(value.mul(new Scalar(share)));
    }

    private static double norm(org.bytedeco.pytorch.Tensor x) {
        return torch.norm(x).item_double();
    }

    private static TorchStep lion(org.bytedeco.pytorch.Tensor w, double beta1, double beta2, double decay) {
        org.bytedeco.pytorch.Tensor mean = torch.zeros_like(w.detach());
        return weight -> {
            org.bytedeco.pytorch.Tensor g = weight.grad();
            org.bytedeco.pytorch.Tensor step = torch.sign(mean.mul(new Scalar(beta1)).add(g.mul(new Scalar(1
                    - beta1))));
            weight.detach().mul_(new Scalar(1 - RATE * decay)).sub_(step.mul(new Scalar(RATE)));
            towards(mean, g, 1 - beta2);
        };
    }

    /** Adam's direction and weight decay. */
    private static Function<org.bytedeco.pytorch.Tensor, org.bytedeco.pytorch.Tensor> direction(
            org.bytedeco.pytorch.Tensor w, double beta1, double beta2, double epsilon, double decay) {
        org.bytedeco.pytorch.Tensor mean = torch.zeros_like(w.detach());
        org.bytedeco.pytorch.Tensor square = torch.zeros_like(w.detach());
        int[] step = {0};
        return weight -> {
            step[0]++;
            towards(mean, weight.grad(), 1 - beta1);
            towards(square, weight.grad().mul(weight.grad()), 1 - beta2);
            return mean.div(new Scalar(1 - Math.pow(beta1, step[0]))).div(square.div(new Scalar(1 - Math.pow(beta2,
                    step[0]))).sqrt().add(new Scalar(epsilon))).add(weight.detach().mul(new Scalar(decay)));
        };
    }

    private static TorchStep lamb(org.bytedeco.pytorch.Tensor w, double beta1, double beta2, double decay) {
        var direction = direction(w, beta1, beta2, 1e-6, decay);
        return weight -> {
            org.bytedeco.pytorch.Tensor u = direction.apply(weight);
            weight.detach().sub_(u.mul(new Scalar(RATE * norm(weight.detach()) / norm(u))));
        };
    }

    /** As {@code torch.optim.Adafactor}. */
    private static TorchStep adafactor(org.bytedeco.pytorch.Tensor w, double rate, double exponent, double threshold,
            double decay) {
        boolean matrix = w.dim() > 1;
        org.bytedeco.pytorch.Tensor square = torch.zeros_like(w.detach());
        org.bytedeco.pytorch.Tensor rows = matrix ? mean(square, -1) : square;
        org.bytedeco.pytorch.Tensor columns = matrix ? mean(square, -2) : square;
        int[] step = {0};
        return weight -> {
            double share = Math.pow(++step[0], exponent);
            org.bytedeco.pytorch.Tensor g = weight.grad();
            double size = Math.sqrt(g.numel());
            double alpha = Math.max(1e-3, norm(weight.detach()) / size) * Math.min(rate, 1 / Math.sqrt(step[0]));
            weight.detach().mul_(new Scalar(1 - rate * decay));
            org.bytedeco.pytorch.Tensor variance = square;
            if (matrix) {
                towards(rows, mean(g.mul(g), -1), share);
                towards(columns, mean(g.mul(g), -2), share);
                variance = torch.matmul(rows, columns).div(mean(rows, -2));
            } else {
                towards(square, g.mul(g), share);
            }
            org.bytedeco.pytorch.Tensor update = g.mul(torch.rsqrt(variance));
            weight.detach().sub_(update.mul(new Scalar(alpha / Math.max(1, norm(update) / (size * threshold)))));
        };
    }

    private static org.bytedeco.pytorch.Tensor mean(org.bytedeco.pytorch.Tensor x, long axis) {
        return x.mean(new long[] {axis}, true, new ScalarTypeOptional());
    }

    /** As {@code torch.optim.Muon}, in f64 and with {@code adjust_lr_fn="match_rms_adamw"}; vectors as AdamW. */
    private static TorchStep muon(org.bytedeco.pytorch.Tensor w, double momentum, boolean nesterov, double decay) {
        if (w.dim() < 2) {
            var direction = direction(w, 0.9, 0.999, 1e-8, 0);
            return weight -> {
                org.bytedeco.pytorch.Tensor u = direction.apply(weight);
                weight.detach().mul_(new Scalar(1 - RATE * decay)).sub_(u.mul(new Scalar(RATE)));
            };
        }
        org.bytedeco.pytorch.Tensor velocity = torch.zeros_like(w.detach());
        return weight -> {
            org.bytedeco.pytorch.Tensor g = weight.grad();
            towards(velocity, g, 1 - momentum);
            org.bytedeco.pytorch.Tensor x = torch.flatten(nesterov ? g.mul(new Scalar(1 - momentum)).add(
                    velocity.mul(new Scalar(momentum))) : velocity, 1, -1);
            double scale = 0.2 * Math.sqrt(Math.max(x.size(0), x.size(1)));
            boolean tall = x.size(0) > x.size(1);
            x = tall ? x.t() : x;
            x = x.div(new Scalar(Math.max(1e-7, norm(x))));
            for (int i = 0; i < 5; i++) {
                org.bytedeco.pytorch.Tensor gram = torch.matmul(x, x.t());
                x = x.mul(new Scalar(3.4445)).add(torch.matmul(gram.mul(new Scalar(-4.7750)).add(torch.matmul(gram,
                        gram).mul(new Scalar(2.0315))), x));
            }
            x = tall ? x.t() : x;
            weight.detach().mul_(new Scalar(1 - RATE * decay)).sub_(x.reshape(weight.sizes()).mul(new Scalar(RATE
                    * scale)));
        };
    }

    static Stream<Pair> optimizers() {
        return PAIRS.stream();
    }

    @Test
    void comparesAllOptimisers() throws IOException {
        TreeSet<String> rows = new TreeSet<>(PAIRS.stream().map(Pair::row).toList());
        rows.add("Lbfgs.over");
        ParityPage.requireAll("Optimisers", rows);
    }

    @ParameterizedTest
    @MethodSource("optimizers")
    void stepsAsPyTorchDoes(Pair pair) {
        for (long[] shape : SHAPES) {
            compare(pair, DType.F64, 1e-11, shape);
        }
        compare(pair, DType.F32, 5e-5, SHAPES[0]);
    }

    private static void compare(Pair pair, DType type, double tolerance, long... shape) {
        float[] start = Inputs.normal(1, shape);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                Weights ours = new Weights(Parameter.of(Tensor.of(start, shape).to(type)));
                Optimizer optimizer = pair.ours.apply(ours)) {
            org.bytedeco.pytorch.Tensor weight = torch(start, shape).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor average = torch.zeros_like(weight.detach());
            TorchStep torchStep = pair.theirs.apply(weight);
            for (int step = 1; step <= STEPS; step++) {
                float[] x = Inputs.normal(10 + step, shape);
                Tensor input = Tensor.of(x, shape).to(type);
                Tape tape = new Tape().watch(optimizer.watched());
                Tensor loss = tape.record(() -> ours.forward(input).sum());
                optimizer.step(tape.backward(loss));
                if (step > 1) {
                    weight.grad().zero_();
                }
                torch(x, shape).mul(weight).add(weight.mul(weight)).sum().backward();
                torchStep.take(weight);
                LayerParityTest.assertClose("step " + step, ours.weight.value().toDoubles(), Torch.doubles(weight),
                        tolerance);
                double share = share(pair, step);
                if (share > 0) {
                    towards(average, weight.detach(), share);
                    LayerParityTest.assertClose("average " + step, ((AveragedWeights) optimizer).average(0)
                            .toDoubles(), Torch.doubles(average), tolerance);
                }
            }
        }
    }

    /** Returns the weight of the new weights in {@code AveragedModel} with {@code get_ema_avg_fn}, or in the mean. */
    private static double share(Pair pair, int step) {
        return switch (pair.row) {
            case "AveragedWeights.exponential" -> step == 1 ? 1 : 0.1;
            case "AveragedWeights.stochastic" -> step % 3 == 2 ? 1.0 / ((step - 2) / 3 + 1) : 0;
            default -> 0;
        };
    }

    private static org.bytedeco.pytorch.Tensor torch(float[] values, long... shape) {
        return Torch.tensor(values, shape).toType(org.bytedeco.pytorch.global.torch.ScalarType.Double);
    }

    /** Both search along strong Wolfe conditions, but choose other lengths: after ten steps both are at the minimum. */
    @Test
    void reachesTheMinimumOfLbfgs() {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                Linear model = Linear.of(6, 2, Generator.seeded(1))) {
            model.to(DType.F64);
            float[] x = Inputs.normal(2, 30, 6);
            float[] y = Inputs.normal(3, 30, 2);
            org.bytedeco.pytorch.Tensor w = Torch.tensor(model.weight().value().toDoubles(), 2, 6);
            org.bytedeco.pytorch.Tensor b = Torch.tensor(model.bias().value().toDoubles(), 2);
            w.set_requires_grad(true);
            b.set_requires_grad(true);
            LBFGSOptions options = new LBFGSOptions(1);
            options.tolerance_grad().put(1e-12);
            options.tolerance_change().put(1e-15);
            options.line_search_fn().put(new org.bytedeco.javacpp.BytePointer("strong_wolfe"));
            LBFGS lbfgs = new LBFGS(new TensorVector(w, b), options);
            LossClosure closure = new LossClosure() {
                @Override
                public org.bytedeco.pytorch.Tensor call() {
                    lbfgs.zero_grad();
                    org.bytedeco.pytorch.Tensor loss = torch.mse_loss(torch.linear(torch(x, 30, 6), w,
                            new TensorOptional(b)), torch(y, 30, 2));
                    loss.backward();
                    return loss;
                }
            };
            try (Lbfgs ours = Lbfgs.over(model).tolerances(1e-12, 1e-15).build()) {
                Tensor in = Tensor.of(x, 30, 6).to(DType.F64);
                Tensor target = Tensor.of(y, 30, 2).to(DType.F64);
                for (int step = 0; step < STEPS; step++) {
                    lbfgs.step(closure);
                    ours.step(() -> Loss.meanSquared().of(model.forward(in), target));
                }
            }
            assertThat(model.weight().value().toDoubles()).usingComparatorWithPrecision(1e-7)
                    .containsExactly(Torch.doubles(w));
            assertThat(model.bias().value().toDoubles()).usingComparatorWithPrecision(1e-7)
                    .containsExactly(Torch.doubles(b));
        }
    }
}
