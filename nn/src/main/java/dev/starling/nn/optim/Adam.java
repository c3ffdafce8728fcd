package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;

/**
 * The Adam optimiser: steps scaled by running means of the gradient and of its square; see {@link Rule.Adam}.
 * {@link AdamW} creates it with decoupled weight decay. The bias correction of the means counts the steps of each
 * parameter separately, so that a parameter that is unfrozen late starts like any other.
 *
 * <p>The square of an f32 gradient element above 1.8·10¹⁹ is infinite. The mean of the squares then stays infinite, and
 * its weight does not move any more, except by decoupled weight decay, unless {@link ClipByNorm} or
 * {@link ClipByValue} bounds the gradients before.
 */
public final class Adam {
    private Adam() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.001 and without
     * weight decay. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model, false, 0);
    }

    /** Collects the settings of the optimiser. */
    public static final class Builder extends OptimizerBuilder<Builder> {
        private final boolean decoupled;
        private double beta1 = 0.9;
        private double beta2 = 0.999;
        private double epsilon = 1e-8;

        Builder(Module model, boolean decoupled, double weightDecay) {
            super(model, 1e-3, weightDecay);
            this.decoupled = decoupled;
        }

        /** Sets the decay rates of the means of gradient and square, each in [0, 1); default 0.9 and 0.999. */
        public Builder betas(double gradient, double square) {
            if (!(gradient >= 0 && gradient < 1 && square >= 0 && square < 1)) {
                throw TensorException.argument("adam", "0 <= beta < 1 must hold, got " + gradient + " and " + square,
                        "use values in [0, 1)");
            }
            beta1 = gradient;
            beta2 = square;
            return this;
        }

        /**
         * Sets the number that is added to the root of the squares' mean, so that the division stays finite; default
         * 1e-8.
         */
        public Builder epsilon(double value) {
            epsilon = requireAtLeast0("epsilon", value);
            return this;
        }

        @Override
        Rule rule(double decay) {
            return new Rule.Adam(beta1, beta2, epsilon, decay, decoupled);
        }
    }
}
