package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Collects what all optimisers have in common that step by one {@link Rule}.
 *
 * @param <B> the builder itself
 */
public abstract sealed class OptimizerBuilder<B extends OptimizerBuilder<B>>
        permits Sgd.Builder, Adam.Builder, Adagrad.Builder, Rmsprop.Builder, Lion.Builder, TensorRuleBuilder {
    final Module model;
    Schedule schedule;
    double weightDecay;
    Predicate<String> selected = path -> true;
    /** Settings of parameters by their paths; the last that applies counts. */
    final List<Group> groups = new ArrayList<>();

    /**
     * Settings of some parameters.
     *
     * @param paths which parameters
     * @param rates their learning rates; {@code null} for those of the optimiser
     * @param decay their weight decay; {@code null} for that of the optimiser
     */
    record Group(Predicate<String> paths, @Nullable Schedule rates, @Nullable Double decay) { }

    OptimizerBuilder(Module model, double rate, double weightDecay) {
        this.model = model;
        schedule = Schedule.constant(rate);
        this.weightDecay = weightDecay;
    }

    /** Returns the rule, with the given weight decay in place of that of the builder. */
    abstract Rule rule(double decay);

    @SuppressWarnings("unchecked")
    private B self() {
        return (B) this;
    }

    /** Sets the learning rate. */
    public B rate(double rate) {
        return rate(Schedule.constant(rate));
    }

    /** Sets the schedule of the learning rate. */
    public B rate(Schedule rates) {
        schedule = rates;
        return self();
    }

    /** Sets the weight decay. */
    public B weightDecay(double value) {
        weightDecay = requireAtLeast0("weight decay", value);
        return self();
    }

    /** Sets the learning rate of parameters by their path, for example of those that start with {@code trunk.}. */
    public B rate(Predicate<String> paths, double rate) {
        return rate(paths, Schedule.constant(rate));
    }

    /** Sets the schedule of the learning rate of parameters by their path. If several apply, the last counts. */
    public B rate(Predicate<String> paths, Schedule rates) {
        groups.add(new Group(paths, rates, null));
        return self();
    }

    /** Sets the weight decay of parameters by their path. If several apply, the last counts. */
    public B weightDecay(Predicate<String> paths, double value) {
        groups.add(new Group(paths, null, requireAtLeast0("weight decay", value)));
        return self();
    }

    /** Returns the schedule of a parameter. */
    Schedule scheduleOf(String path) {
        Schedule found = schedule;
        for (Group group : groups) {
            found = group.rates != null && group.paths.test(path) ? group.rates : found;
        }
        return found;
    }

    /** Returns the weight decay of a parameter. */
    double decayOf(String path) {
        double found = weightDecay;
        for (Group group : groups) {
            found = group.decay != null && group.paths.test(path) ? group.decay : found;
        }
        return found;
    }

    /**
     * Selects parameters by their path; default all. The optimiser keeps no state for other parameters and never
     * changes them. This is meant for models of which most parameters are frozen permanently.
     */
    public B only(Predicate<String> paths) {
        selected = paths;
        return self();
    }

    /** Exempts parameters from weight decay by their path, for example those that end in {@code bias}. */
    public B withoutDecay(Predicate<String> paths) {
        return weightDecay(paths, 0);
    }

    /** Returns the optimiser, with its state on the parameters' device. */
    public Optimizer build() {
        return new RuleOptimizer(this);
    }

    /** Returns a setting, or throws an exception if it is negative, infinite or NaN. */
    static double requireAtLeast0(String setting, double value) {
        if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("optimizer", setting + " must be >= 0 and finite, got " + value,
                    "use a finite number >= 0");
        }
        return value;
    }

    /** Returns a decay rate, or throws an exception if it is not in [0, 1). */
    static double requireDecay(String setting, double value) {
        if (!(value >= 0 && value < 1)) {
            throw TensorException.argument("optimizer", setting + " must be in [0, 1), got " + value,
                    "use a value in [0, 1)");
        }
        return value;
    }
}
