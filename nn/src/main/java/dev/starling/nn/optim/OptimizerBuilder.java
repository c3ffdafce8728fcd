package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.function.Predicate;

/**
 * Collects what all optimisers of one {@link Rule} have in common.
 *
 * @param <B> the builder itself
 */
public abstract sealed class OptimizerBuilder<B extends OptimizerBuilder<B>>
        permits Sgd.Builder, Adam.Builder, Adagrad.Builder {
    final Layer model;
    Schedule schedule;
    double weightDecay;
    Predicate<String> selected = path -> true;
    Predicate<String> exempt = path -> false;

    OptimizerBuilder(Layer model, double rate, double weightDecay) {
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
        exempt = paths;
        return self();
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
}
