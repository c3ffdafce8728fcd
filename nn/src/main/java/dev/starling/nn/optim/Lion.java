package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;

/**
 * Lion: steps of equal length in each element, in the direction of the sign of a running mean of the gradient; see
 * {@link Rule.Lion}. It keeps half the state of {@link Adam}; its learning rate is usually 3 to 10 times smaller.
 */
public final class Lion {
    private Lion() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.0001 and without
     * weight decay. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. Weight decay is decoupled. */
    public static final class Builder extends OptimizerBuilder<Builder> {
        private double beta1 = 0.9;
        private double beta2 = 0.99;

        private Builder(Module model) {
            super(model, 1e-4, 0);
        }

        /**
         * Sets the share of the mean in the direction of a step, and the decay of the mean, each in [0, 1); default 0.9
         * and 0.99.
         */
        public Builder betas(double direction, double mean) {
            if (!(direction >= 0 && direction < 1 && mean >= 0 && mean < 1)) {
                throw TensorException.argument("lion", "0 <= beta < 1 must hold, got " + direction + " and " + mean,
                        "use values in [0, 1)");
            }
            beta1 = direction;
            beta2 = mean;
            return this;
        }

        @Override
        Rule rule(double weightDecay) {
            return new Rule.Lion(beta1, beta2, weightDecay);
        }
    }
}
