package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.op.Rule;

/**
 * LAMB, for large batches: Adam's direction {@code u}, including the weight decay, with the length of each parameter:
 * {@code p -= rate·‖p‖·u/‖u‖}. Beside 16-bit weights the state is f32. (You et al., Large batch optimization for deep
 * learning, 2019)
 *
 * <p>The square of an f32 gradient element above 1.8·10¹⁹ is infinite. The mean of the squares then stays infinite, and
 * only weight decay still moves its weight, unless {@link ClipByNorm} or {@link ClipByValue} bounds the gradients
 * before.
 */
public final class Lamb {
    private Lamb() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.001 and weight decay
     * 0.01. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. */
    public static final class Builder extends TensorRuleBuilder<Builder> {
        private double beta1 = 0.9;
        private double beta2 = 0.999;
        private double epsilon = 1e-6;

        private Builder(Module model) {
            super(model, 1e-3, 0.01);
        }

        /** Sets the decay rates of the means of gradient and square, each in [0, 1); default 0.9 and 0.999. */
        public Builder betas(double gradient, double square) {
            beta1 = requireDecay("beta", gradient);
            beta2 = requireDecay("beta", square);
            return this;
        }

        /** Sets the number that avoids division by 0; default 1e-6. */
        public Builder epsilon(double value) {
            epsilon = requireAtLeast0("epsilon", value);
            return this;
        }

        @Override
        TensorRule rule(String path, Parameter parameter) {
            return new Moments(beta1, beta2, epsilon, decayOf(path), true);
        }

        /** The direction includes the weight decay. */
        @Override
        Rule rule(double decay) {
            return super.rule(0);
        }
    }
}
