package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.Arrays;
import java.util.List;

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

    /** Requires a gradient of the weights' shape, and a state of the shapes of the rule's slots. */
    static void requireOperands(TensorRule rule, Tensor weights, Tensor gradient, Tensor[] state) {
        List<Shape> expected = List.copyOf(rule.slots(weights.shape()).values());
        List<Shape> found = Arrays.stream(state).map(Tensor::shape).toList();
        if (!gradient.shape().equals(weights.shape()) || !found.equals(expected)) {
            throw TensorException.argument("optimiser", "the step of weights " + weights.shape() + " needs a gradient "
                    + "of this shape and a state of the shapes " + expected + ", got " + gradient.shape() + " and "
                    + found, "pass one tensor for each of TensorRule.slots");
        }
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
