package dev.starling.jmh.fuzz;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.Adagrad;
import org.bytedeco.pytorch.AdagradOptions;
import org.bytedeco.pytorch.Adam;
import org.bytedeco.pytorch.AdamOptions;
import org.bytedeco.pytorch.AdamW;
import org.bytedeco.pytorch.AdamWOptions;
import org.bytedeco.pytorch.Optimizer;
import org.bytedeco.pytorch.SGD;
import org.bytedeco.pytorch.SGDOptions;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * Repeats each step of a run with libtorch, from the same weights: losses, gradients and running statistics in f64, and
 * the optimiser's step in the weights' type with Starling's gradients. So neither chaotic growth nor an optimiser that
 * divides by a tiny root can make a rounding look like a fault, or hide a fault.
 *
 * <p>The tolerance is measured, not guessed: it is how far libtorch's own results move when weights and inputs are
 * perturbed by a few roundings of Starling's type.
 */
final class TorchOracle implements AutoCloseable {
    /** Beyond, the square of an intermediate result may be infinite in f32. */
    private static final double LARGE = 1e12;

    private final NetCase of;
    private final NetPair pair;
    private final Map<String, Parameter> state;
    private final Scope scope = Scope.open("oracle");
    private final PointerScope pointers = new PointerScope();
    private final double[] input;
    private final double[] target;
    private final double unit;
    private final double factor;
    private final List<String> paths;
    private final List<Tensor> trained = new ArrayList<>();
    private final Optimizer optimizer;

    /** libtorch's results: the loss, gradients, and statistics under their paths. */
    private record Result(double loss, Map<String, double[]> values) { }

    TorchOracle(NetCase of) {
        this.of = of;
        pair = of.pair();
        state = pair.ours().state();
        input = of.inputs().toDoubles();
        target = of.targets().toDoubles();
        unit = of.computing() == DType.BF16 ? 0x1p-9 : of.type() == DType.F32 ? 0x1p-24 : 0x1p-53;
        factor = of.computing() == DType.BF16 ? 24 : of.type() == DType.F32 ? 512 : 4096;
        paths = List.copyOf(pair.ours().parameters().keySet());
        for (String path : paths) {
            Tensor t = torch.zeros(state.get(path).shape().dims(), new TensorOptions(of.type() == DType.F32
                    ? torch.ScalarType.Float : torch.ScalarType.Double));
            trained.add(t.set_requires_grad(true));
        }
        optimizer = optimizer(new TensorVector(trained.toArray(Tensor[]::new)));
    }

    private Optimizer optimizer(TensorVector weights) {
        switch (of.optimizer()) {
            case ADAM, ADAM_DECAY -> {
                AdamOptions options = new AdamOptions(of.rate());
                options.weight_decay().put(of.optimizer() == NetCase.Rule.ADAM ? 0 : 0.1);
                return new Adam(weights, options);
            }
            case ADAM_W, CLIPPED_ADAM_W -> {
                AdamWOptions options = new AdamWOptions(of.rate());
                options.weight_decay().put(of.optimizer() == NetCase.Rule.ADAM_W ? 0.1 : 0.01);
                return new AdamW(weights, options);
            }
            case ADAGRAD -> {
                AdagradOptions options = new AdagradOptions(of.rate());
                options.initial_accumulator_value().put(0.1);
                options.weight_decay().put(0.1);
                return new Adagrad(weights, options);
            }
            default -> {
                SGDOptions options = new SGDOptions(of.rate());
                options.weight_decay().put(switch (of.optimizer()) {
                    case DECAY -> 0.1;
                    case MOMENTUM -> 0.01;
                    default -> 0;
                });
                options.momentum().put(switch (of.optimizer()) {
                    case MOMENTUM -> 0.9;
                    case NESTEROV -> 0.8;
                    default -> 0;
                });
                options.nesterov().put(of.optimizer() == NetCase.Rule.NESTEROV);
                return new SGD(weights, options);
            }
        }
    }

    /** Describes what is wrong with a step, or returns {@code null}. */
    String check(NetRun.Step step) {
        try (PointerScope inner = new PointerScope()) {
            String wrong = optimizer(step);
            return wrong != null ? wrong : gradients(step);
        }
    }

    /** Returns whether libtorch's loss and gradients of a step are far from infinite. */
    boolean isFinite(NetRun.Step step) {
        try (PointerScope inner = new PointerScope()) {
            Result truth = compute(step, 0, 0);
            return Math.abs(truth.loss) < LARGE && truth.values.values().stream().allMatch(v -> max(v) < LARGE);
        }
    }

    // ---- losses and gradients ----

    private String gradients(NetRun.Step step) {
        Result truth = compute(step, 0, 0);
        Map<String, double[]> ours = new TreeMap<>(step.gradients());
        state.forEach((path, p) -> {
            if (p.isBuffer()) {
                ours.put(path, step.after().get(path));
            }
        });
        // The gradient of cross-entropy is a difference from 1, whose rounding does not depend on how small it is.
        double scale = Math.max(of.smooth() ? 0.1 : 0, truth.values.values().stream()
                .mapToDouble(TorchOracle::max).reduce(0, Math::max));
        Map<String, Double> tolerance = new TreeMap<>();
        String wrong = null;
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < (round == 0 ? 0 : 6); i++) {
                Result other = compute(step, unit * (round == 1 ? 8 : 256), round * 10 + i);
                tolerance.merge("loss", 16 * Math.abs(other.loss - truth.loss), Math::max);
                other.values.forEach((path, v) -> tolerance.merge(path, 16 * distance(v, truth.values.get(path)),
                        Math::max));
            }
            wrong = compare(step.loss(), ours, truth, scale, tolerance);
            if (wrong == null) {
                return null;
            }
        }
        return wrong;
    }

    private String compare(double loss, Map<String, double[]> ours, Result truth, double scale,
            Map<String, Double> tolerance) {
        double allowed = factor * unit * Math.max(1, Math.abs(truth.loss)) + tolerance.getOrDefault("loss", 0.0);
        if (!(Math.abs(loss - truth.loss) <= allowed)) {
            return "torch loss: " + loss + " instead of " + truth.loss + ", tolerance " + allowed;
        }
        for (Map.Entry<String, double[]> entry : truth.values.entrySet()) {
            String path = entry.getKey();
            double[] mine = ours.get(path);
            double[] right = entry.getValue();
            if (mine == null) {
                // Starling found that the loss does not depend on the parameter.
                mine = new double[right.length];
            }
            double bound = factor * unit * (max(right) + scale) + tolerance.getOrDefault(path, 0.0);
            double difference = distance(mine, right);
            if (!(difference <= bound)) {
                return "torch " + (state.get(path).isBuffer() ? "statistics" : "gradient") + ": " + path
                        + " differs by " + difference + ", tolerance " + bound + ", largest element " + max(right);
            }
        }
        return null;
    }

    /** Computes a step in f64, from weights and inputs perturbed in proportion to themselves. */
    private Result compute(NetRun.Step step, double perturbation, long seed) {
        SplittableRandom r = new SplittableRandom(seed);
        try (PointerScope inner = new PointerScope()) {
            Map<Parameter, Tensor> tensors = new IdentityHashMap<>();
            state.forEach((path, p) -> {
                Tensor t = tensor(perturbed(step.before().get(path), perturbation, r), p.shape().dims());
                tensors.put(p, t.set_requires_grad(step.trained().contains(path)));
            });
            long[] dims = new long[of.input().length + 1];
            dims[0] = of.batch();
            System.arraycopy(of.input(), 0, dims, 1, of.input().length);
            Tensor x = of.rows() > 0 ? longs(input, dims) : tensor(perturbed(input, perturbation, r), dims);
            torch.manual_seed(seed);
            Tensor y = pair.theirs().of(x, new NetPair.TorchState() {
                @Override
                public Tensor of(Parameter parameter) {
                    return tensors.get(parameter);
                }

                @Override
                public double perturbation() {
                    return perturbation;
                }
            });
            Tensor loss = of.smooth() ? torch.cross_entropy_loss(y, longs(target, of.batch()))
                    : torch.mse_loss(y, tensor(target, of.batch(), of.classes()));
            loss.backward();
            Map<String, double[]> values = new TreeMap<>();
            state.forEach((path, p) -> {
                Tensor t = tensors.get(p);
                if (p.isBuffer()) {
                    values.put(path, doubles(t));
                } else if (t.grad().defined()) {
                    values.put(path, doubles(t.grad()));
                }
            });
            return new Result(loss.item_double(), values);
        }
    }

    private static double[] perturbed(double[] values, double by, SplittableRandom r) {
        double[] perturbed = values.clone();
        for (int i = 0; by > 0 && i < perturbed.length; i++) {
            perturbed[i] *= 1 + by * (2 * r.nextDouble() - 1);
        }
        return perturbed;
    }

    // ---- optimisers ----

    private String optimizer(NetRun.Step step) {
        double norm = Math.sqrt(step.gradients().values().stream().mapToDouble(g -> {
            double sum = 0;
            for (double v : g) {
                sum += v * v;
            }
            return sum;
        }).sum());
        double scale = of.optimizer().name().startsWith("CLIPPED") && norm > NetCase.CLIP ? NetCase.CLIP / norm : 1;
        for (int i = 0; i < paths.size(); i++) {
            Tensor weight = trained.get(i);
            long[] dims = state.get(paths.get(i)).shape().dims();
            weight.detach().copy_(tensor(step.before().get(paths.get(i)), dims));
            double[] g = step.gradients().get(paths.get(i));
            weight.mutable_grad().put(g == null ? new Tensor()
                    : tensor(g, dims).mul(new org.bytedeco.pytorch.Scalar(scale)).toType(weight.scalar_type()));
        }
        optimizer.step();
        double round = of.type() == DType.F32 ? 0x1p-24 : 0x1p-53;
        for (int i = 0; i < paths.size(); i++) {
            double[] before = step.before().get(paths.get(i));
            double[] ours = step.after().get(paths.get(i));
            double[] theirs = doubles(trained.get(i));
            double allowed = 8 * round * Math.max(max(before), max(theirs))
                    + 4096 * round * distance(before, theirs);
            double difference = distance(ours, theirs);
            if (!(difference <= allowed)) {
                return "torch optimizer: " + paths.get(i) + " differs by " + difference + ", tolerance " + allowed
                        + ", after a step of " + distance(before, theirs);
            }
        }
        return null;
    }

    // ---- numbers ----

    private static Tensor tensor(double[] values, long... dims) {
        Tensor t = torch.zeros(dims, new TensorOptions(torch.ScalarType.Double));
        t.data_ptr_double().put(values);
        return t;
    }

    private static Tensor longs(double[] values, long... dims) {
        Tensor t = torch.zeros(dims, new TensorOptions(torch.ScalarType.Long));
        long[] all = new long[values.length];
        for (int i = 0; i < all.length; i++) {
            all[i] = (long) values[i];
        }
        t.data_ptr_long().put(all);
        return t;
    }

    private static double[] doubles(Tensor t) {
        double[] values = new double[Math.toIntExact(t.numel())];
        t.detach().toType(torch.ScalarType.Double).contiguous().data_ptr_double().get(values);
        return values;
    }

    static double max(double[] values) {
        double max = 0;
        for (double v : values) {
            max = Math.max(max, Math.abs(v));
        }
        return max;
    }

    /** Returns the largest distance of two elements; NaN if there is a NaN. */
    static double distance(double[] a, double[] b) {
        double max = a.length == b.length ? 0 : Double.NaN;
        for (int i = 0; i < Math.min(a.length, b.length); i++) {
            max = Math.max(max, Math.abs(a[i] - b[i]));
        }
        return max;
    }

    @Override
    public void close() {
        pair.ours().close();
        pointers.close();
        scope.close();
    }
}
