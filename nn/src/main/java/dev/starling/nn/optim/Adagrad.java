package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.op.Rule;

/**
 * Adagrad: steps divided by the root of the sum of all squared gradients, so that they are longer for weights that
 * rarely have a gradient, as those of embeddings; see {@link Rule.Adagrad}.
 *
 * <p>The square of an f32 gradient element above 1.8·10¹⁹ is infinite. The sum then stays infinite, and its weight does
 * not move any more, unless {@link ClipByNorm} or {@link ClipByValue} bounds the gradients before.
 */
public final class Adagrad {
    private Adagrad() {
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
        private double epsilon = 1e-10;
        private double initial;

        private Builder(Module model) {
            super(model, 0.01, 0);
        }

        /** Sets the number that is added to the root of the sum, so that the division stays finite; default 1e-10. */
        public Builder epsilon(double value) {
            epsilon = requireAtLeast0("epsilon", value);
            return this;
        }

        /** Sets the sum before the first step; default 0. A larger one shortens the first steps. */
        public Builder initialSum(double value) {
            initial = requireAtLeast0("the initial sum", value);
            return this;
        }

        @Override
        Rule rule(double decay) {
            return new Rule.Adagrad(epsilon, decay, initial);
        }
    }
}
