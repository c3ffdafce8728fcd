package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.op.Rule;

/**
 * Collects what all optimisers have in common that need a parameter's gradient as a whole.
 *
 * @param <B> the builder itself
 */
public abstract sealed class TensorRuleBuilder<B extends TensorRuleBuilder<B>> extends OptimizerBuilder<B>
        permits Lamb.Builder, Adafactor.Builder, Muon.Builder {
    TensorRuleBuilder(Module model, double rate, double weightDecay) {
        super(model, rate, weightDecay);
    }

    /** Returns the rule of a parameter. */
    abstract TensorRule rule(String path, Parameter parameter);

    /** Returns the rule of the step along the direction. */
    @Override
    Rule rule(double decay) {
        return new Rule.Sgd(0, 0, decay, false);
    }

    @Override
    public Optimizer build() {
        return new TensorRuleOptimizer(new RuleOptimizer(this), this);
    }
}
