package dev.starling.nn.optim;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * L-BFGS, for small models and losses without noise, such as those of a whole data set: directions that take the
 * curvature into account, which is known from the changes of the gradient in the last steps. Each step evaluates the
 * loss several times, so this is no {@link Optimizer} for batches of a trainer:
 *
 * <pre>{@code
 * try (Lbfgs optimizer = Lbfgs.over(model).build()) {
 *     for (int i = 0; i < 20; i++) {
 *         double before = optimizer.step(() -> loss.of(model.forward(x), y));
 *     }
 * }
 * }</pre>
 *
 * <p>The step length satisfies the strong Wolfe conditions, so that there is no learning rate. (PyTorch searches only
 * on request; a fixed length diverges on many losses.) May be used by one thread at a time. (Nocedal and Wright,
 * Numerical optimization, 2006, algorithms 7.4 and 3.5)
 */
public final class Lbfgs implements AutoCloseable {
    private static final double SMALLEST_CURVATURE = 1e-10;

    private final Module model;
    private final int iterations;
    private final int memory;
    private final double gradientTolerance;
    private final double changeTolerance;
    private final Deque<Pair> pairs = new ArrayDeque<>();
    /** The parameters that were not frozen in the last step. */
    private List<Parameter> parameters = List.of();

    private Lbfgs(Builder builder) {
        model = builder.model;
        iterations = builder.iterations;
        memory = builder.memory;
        gradientTolerance = builder.gradientTolerance;
        changeTolerance = builder.changeTolerance;
    }

    /**
     * How the gradient changed along a step.
     *
     * @param step the step, {@code [P]}
     * @param change the change of the gradient, {@code [P]}
     * @param curvature their inner product
     */
    private record Pair(Parameter step, Parameter change, double curvature) implements AutoCloseable {
        @Override
        public void close() {
            step.close();
            change.close();
        }
    }

    /** Returns a builder of an optimiser for all parameters of {@code model}. Frozen parameters do not change. */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. */
    public static final class Builder {
        private final Module model;
        private int iterations = 20;
        private int memory = 10;
        private double gradientTolerance = 1e-7;
        private double changeTolerance = 1e-9;

        private Builder(Module model) {
            this.model = model;
        }

        /** Sets the largest number of directions in a call of {@link Lbfgs#step}, at least 1; default 20. */
        public Builder iterations(int count) {
            iterations = requirePositive("iterations", count);
            return this;
        }

        /**
         * Sets the number of steps from which the curvature is estimated, at least 1; default 10. Each needs twice the
         * memory of the parameters.
         */
        public Builder history(int count) {
            memory = requirePositive("history", count);
            return this;
        }

        /**
         * Sets when a step ends early: if no element of the gradient exceeds the first number (default 1e-7), or if
         * neither the loss nor a parameter changes by more than the second (default 1e-9).
         */
        public Builder tolerances(double gradient, double change) {
            gradientTolerance = OptimizerBuilder.requireAtLeast0("tolerance", gradient);
            changeTolerance = OptimizerBuilder.requireAtLeast0("tolerance", change);
            return this;
        }

        private static int requirePositive(String setting, int value) {
            if (value < 1) {
                throw TensorException.argument("lbfgs", setting + " must be at least 1, got " + value,
                        "use the default");
            }
            return value;
        }

        /** Returns the optimiser. */
        public Lbfgs build() {
            return new Lbfgs(this);
        }
    }

    /**
     * Changes the parameters to reduce a loss, by several directions. If that fails, they are as before the step.
     *
     * @param loss computes the loss, a scalar, from the parameters; must return the same value for the same parameters
     * @return the loss before the step
     * @throws TensorException if the loss or its gradient is not finite before the step, or has no gradient
     */
    public double step(Supplier<Tensor> loss) {
        List<Parameter> current = model.parameters().values().stream().filter(Parameter::requiresGradient).toList();
        if (current.isEmpty()) {
            throw TensorException.argument("lbfgs", "the model has no parameter that is not frozen",
                    "unfreeze at least one of them");
        }
        if (!current.equals(parameters)) {
            close();
            parameters = current;
        }
        try (Scope scope = Scope.open("lbfgs")) {
            return Recorder.with(Recorder.NONE, () -> {
                Tensor before = flat(Parameter::master);
                try {
                    return iterate(loss);
                } catch (RuntimeException | Error e) {
                    set(before);
                    throw e;
                }
            });
        }
    }

    private double iterate(Supplier<Tensor> loss) {
        WolfeSearch.Point point = evaluate(loss, 0, null);
        double first = point.value();
        if (!Double.isFinite(first) || !Double.isFinite(largest(point.gradient()))) {
            throw RuleOptimizer.notFinite(List.of(), "the loss or its gradient is infinite or NaN");
        }
        for (int i = 0; i < iterations && largest(point.gradient()) > gradientTolerance; i++) {
            Tensor direction = direction(point.gradient());
            if (dot(direction, point.gradient()) >= 0) {
                // Rounding has spoilt the estimated curvature.
                forget();
                direction = direction(point.gradient());
            }
            Tensor from = flat(Parameter::master);
            double length = pairs.isEmpty() ? Math.min(1, 1 / point.gradient().abs().sum().item()) : 1;
            Tensor along = direction;
            WolfeSearch.Point next = new WolfeSearch(point, along, changeTolerance / Math.max(largest(along), 1e-300),
                    t -> {
                        move(from, along, t);
                        return evaluate(loss, t, along);
                    }).from(length);
            move(from, along, next.length());
            remember(along.mul(next.length()), next.gradient().sub(point.gradient()));
            double change = Math.max(Math.abs(next.value() - point.value()), largest(along) * next.length());
            point = next;
            if (change <= changeTolerance) {
                break;
            }
        }
        return first;
    }

    /** Returns minus the gradient, multiplied by the estimated inverse of the matrix of second derivatives. */
    private Tensor direction(Tensor gradient) {
        Tensor q = gradient.neg();
        double[] shares = new double[pairs.size()];
        int i = shares.length;
        for (Pair pair : pairs.reversed()) {
            shares[--i] = dot(pair.step.master(), q) / pair.curvature;
            q = q.sub(pair.change.master().mul(shares[i]));
        }
        if (!pairs.isEmpty()) {
            Pair last = pairs.getLast();
            q = q.mul(last.curvature / dot(last.change.master(), last.change.master()));
        }
        for (Pair pair : pairs) {
            double back = dot(pair.change.master(), q) / pair.curvature;
            q = q.add(pair.step.master().mul(shares[i++] - back));
        }
        return q;
    }

    private void remember(Tensor step, Tensor change) {
        double curvature = dot(step, change);
        if (curvature > SMALLEST_CURVATURE * dot(change, change) && curvature > 0) {
            if (pairs.size() == memory) {
                pairs.removeFirst().close();
            }
            pairs.addLast(new Pair(Parameter.buffer(step), Parameter.buffer(change), curvature));
        }
    }

    private void forget() {
        pairs.forEach(Pair::close);
        pairs.clear();
    }

    private WolfeSearch.Point evaluate(Supplier<Tensor> loss, double length, @Nullable Tensor direction) {
        try (Scope scope = Scope.open("evaluation")) {
            Tape tape = new Tape().watch(parameters.stream().map(Parameter::master).toList());
            Tensor value = tape.record(loss);
            Gradients gradients = tape.backward(value);
            Tensor gradient = scope.keep(flat(each -> {
                Tensor own = gradients.get(each.master());
                return own == null ? each.master().zerosLike() : own;
            }).copy());
            return new WolfeSearch.Point(length, value.item(), direction == null ? 0 : dot(gradient, direction),
                    gradient);
        }
    }

    /** Returns a tensor for each parameter as one vector, {@code [P]}. */
    private Tensor flat(Function<Parameter, Tensor> of) {
        List<Tensor> all = new ArrayList<>();
        parameters.forEach(each -> all.add(of.apply(each).reshape(-1)));
        return Tensor.concat(0, all.toArray(Tensor[]::new));
    }

    private void move(Tensor from, Tensor direction, double length) {
        try (Scope scope = Scope.open("move")) {
            set(from.add(direction.mul(length)));
        }
    }

    private void set(Tensor to) {
        long start = 0;
        for (Parameter each : parameters) {
            long count = each.shape().count();
            each.set(to.narrow(0, start, count).reshape(each.shape()));
            start += count;
        }
    }

    private static double dot(Tensor a, Tensor b) {
        return a.mul(b).sum().item();
    }

    private static double largest(Tensor x) {
        return x.abs().max().item();
    }

    /** Frees the memory of the history. The parameters stay open. */
    @Override
    public void close() {
        forget();
    }
}
