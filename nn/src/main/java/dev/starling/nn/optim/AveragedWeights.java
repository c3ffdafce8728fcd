package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Keeps an average of the weights that another optimiser steps through, which often generalises better than the last
 * weights. The averages are saved in checkpoints. {@link #evaluate} computes with them:
 *
 * <pre>{@code
 * AveragedWeights optimizer = AveragedWeights.exponential(Adam.over(model).build(), 0.999);
 * ...
 * Scores scores = optimizer.evaluate(() -> Scores.evaluate(model, loss, test));
 * }</pre>
 *
 * <p>Frozen parameters are averaged too; running statistics are not. Beside 16-bit weights the averages are f32.
 * Parameter servers perform the steps themselves and refuse it.
 */
public final class AveragedWeights implements OptimizerAround {
    private static final String SUFFIX = ".average";

    private final Optimizer inner;
    /** Weight of the weights after each step in the average; 0 for an equal weight of each. */
    private final double share;
    /** The number of the first step whose weights count, and the distance to the next. */
    private final long from;
    private final long every;
    private final Parameter[] averages;
    /** What follows a parameter's path in the names of the state. */
    private final String suffix;

    /** Puts weights back. */
    private interface Restoring extends AutoCloseable {
        @Override
        void close();
    }

    private AveragedWeights(Optimizer inner, double share, long from, long every) {
        this.inner = inner;
        this.share = share;
        this.from = from;
        this.every = every;
        averages = new Parameter[inner.parameters().size()];
        for (int i = 0; i < averages.length; i++) {
            averages[i] = Parameter.filledLike(inner.parameters().get(i), 0);
            convert(i);
            averages[i].set(inner.parameters().get(i).master());
        }
        // Two averages of one optimiser, of different decay, must not have the same names.
        Map<String, Parameter> others = inner.state();
        String name = SUFFIX;
        for (int i = 2; others.containsKey(inner.path(0) + name); i++) {
            name = SUFFIX + i;
        }
        suffix = name;
    }

    /**
     * Returns an optimiser with an exponential moving average: {@code average = decay·average + (1 - decay)·weights}
     * after each step, starting with the weights after the first. Closing it closes {@code inner}.
     *
     * @param decay in [0, 1), usually 0.999 or more
     */
    public static AveragedWeights exponential(Optimizer inner, double decay) {
        if (!(decay >= 0 && decay < 1)) {
            throw TensorException.argument("average", "0 <= decay < 1 must hold, got " + decay,
                    "use for example 0.999");
        }
        return new AveragedWeights(inner, 1 - decay, 1, 1);
    }

    /**
     * Returns an optimiser with stochastic weight averaging: the mean of the weights after step {@code from} and after
     * each {@code every} steps from there on. Closing it closes {@code inner}. (Izmailov et al., 2018)
     */
    public static AveragedWeights stochastic(Optimizer inner, long from, long every) {
        if (from < 1 || every < 1) {
            throw TensorException.argument("average", "the first step and the distance must be >= 1, got " + from
                    + " and " + every, "count steps from 1");
        }
        return new AveragedWeights(inner, 0, from, every);
    }

    @Override
    public Optimizer inner() {
        return inner;
    }

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        inner.step(guard, gradients);
        long number = inner.steps();
        if (number >= from && (number - from) % every == 0) {
            long count = (number - from) / every + 1;
            double weight = count == 1 ? 1 : share == 0 ? 1.0 / count : share;
            add(weight, guard);
        }
    }

    /** Adds the weights to their averages, unless the guard or a check on the device has forbidden the step. */
    private void add(double weight, @Nullable Tensor guard) {
        Update[] update = {weight == 1 ? new Update.Assign() : new Update.Blend(1 - weight, weight)};
        try (Scope scope = Scope.open("average")) {
            Tensor all = finite(inner, guard);
            for (int i = 0; i < averages.length; i++) {
                convert(i);
                Tensor average = averages[i].master();
                try (Scope each = Scope.open("weights")) {
                    Tensor weights = inner.parameters().get(i).master().to(average.dtype());
                    Tensor.applyAll(update, new Tensor[][] {{average, weights}},
                            all == null ? null : all.to(weights.device()));
                }
            }
        }
    }

    /** Returns a number that is finite only if the guard and what optimisers have found on the device are. */
    private static @Nullable Tensor finite(Optimizer optimizer, @Nullable Tensor guard) {
        Tensor found = optimizer instanceof ClipByNorm clip ? clip.found()
                : optimizer instanceof RuleOptimizer rule ? rule.found() : null;
        Tensor all = found == null ? guard : RuleOptimizer.both(found, guard);
        return optimizer instanceof OptimizerAround around ? finite(around.inner(), all) : all;
    }

    /** Converts an average to the type, at least f32, and device of its parameter if those have changed. */
    private void convert(int i) {
        Tensor weights = inner.parameters().get(i).master();
        averages[i].to(weights.device());
        // In 16 bits, most of what a step adds is less than half of an average's last bit, and would be lost.
        averages[i].to(weights.dtype().bytes() < Float.BYTES ? DType.F32 : weights.dtype());
    }

    /** Returns whether there is an average yet. */
    private boolean isAveraged() {
        return inner.steps() >= from;
    }

    /**
     * Runs {@code body} with the averages in place of the weights, of which it keeps a copy, and then puts the weights
     * back. {@code body} must not train. Before the first step that counts there is no average, and {@code body} runs
     * with the weights.
     */
    public <T> T evaluate(Supplier<T> body) {
        List<Parameter> weights = new ArrayList<>();
        // Unlike a finally block, this keeps an exception of body if the weights cannot be put back.
        try (Restoring restoring = () -> restore(weights)) {
            for (int i = 0; isAveraged() && i < averages.length; i++) {
                weights.add(Parameter.buffer(inner.parameters().get(i).master()));
            }
            apply();
            return body.get();
        }
    }

    private void restore(List<Parameter> weights) {
        for (int i = 0; i < weights.size(); i++) {
            inner.parameters().get(i).set(weights.get(i).master());
            weights.get(i).close();
        }
    }

    /**
     * Replaces the weights by their averages, for example before the model is saved at the end of a training. Before
     * the first step that counts there is no average, and the weights stay as they are.
     */
    public void apply() {
        for (int i = 0; isAveraged() && i < averages.length; i++) {
            inner.parameters().get(i).set(averages[i].master());
        }
    }

    /**
     * Returns the average of a parameter. Before the first step that counts it is what the parameter was when this
     * optimiser was made. The caller must not close it.
     */
    public Tensor average(int parameter) {
        return averages[parameter].master();
    }

    @Override
    public Map<String, Parameter> state() {
        Map<String, Parameter> state = new LinkedHashMap<>(inner.state());
        for (int i = 0; i < averages.length; i++) {
            convert(i);
            state.put(inner.path(i) + suffix, averages[i]);
        }
        return state;
    }

    @Override
    public String toString() {
        return inner + (share == 0 ? ", mean of the weights of every " + every + " steps from step " + from
                : ", moving average of the weights with decay " + (1 - share));
    }

    @Override
    public void close() {
        inner.close();
        for (Parameter average : averages) {
            average.close();
        }
    }
}
