package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;

/**
 * RMSprop: steps divided by the root of a running mean of squared gradients; see {@link Rule.Rmsprop}.
 *
 * <p>The square of an f32 gradient element above 1.8·10¹⁹ is infinite. The mean of the squares then stays infinite, and
 * its weight does not move any more, unless {@link ClipByNorm} or {@link ClipByValue} bounds the gradients before.
 */
public final class Rmsprop {
    private Rmsprop() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.01 and without weight
     * decay. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. Weight decay is an L2 penalty. */
    public static final class Builder extends OptimizerBuilder<Builder> {
        private double decay = 0.99;
        private double epsilon = 1e-8;
        private double momentum;
        private boolean centred;

        private Builder(Module model) {
            super(model, 0.01, 0);
        }

        /** Sets the decay of the mean of squares, in [0, 1); default 0.99. PyTorch calls it alpha. */
        public Builder decay(double value) {
            decay = requireBelow1("decay", value);
            return this;
        }

        /** Sets the number that is added to the root, so that the division stays finite; default 1e-8. */
        public Builder epsilon(double value) {
            epsilon = requireAtLeast0("epsilon", value);
            return this;
        }

        /** Sets the momentum of the steps, in [0, 1); default 0. */
        public Builder momentum(double value) {
            momentum = requireBelow1("momentum", value);
            return this;
        }

        /** Divides by the estimated standard deviation of the gradient instead of by the root of its mean square. */
        public Builder centred() {
            centred = true;
            return this;
        }

        private static double requireBelow1(String setting, double value) {
            if (!(value >= 0 && value < 1)) {
                throw TensorException.argument("rmsprop", "0 <= " + setting + " < 1 must hold, got " + value,
                        "use a value in [0, 1)");
            }
            return value;
        }

        @Override
        Rule rule(double weightDecay) {
            return new Rule.Rmsprop(decay, epsilon, weightDecay, momentum, centred);
        }
    }
}
