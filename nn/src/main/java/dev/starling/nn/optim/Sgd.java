package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;

/** Stochastic gradient descent with momentum (optionally Nesterov's) and weight decay; see {@link Rule.Sgd}. */
public final class Sgd {
    private Sgd() {
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
        private double momentum;
        private boolean nesterov;

        private Builder(Module model) {
            super(model, 0.01, 0);
        }

        /** Sets the momentum, in [0, 1); default 0. */
        public Builder momentum(double value) {
            if (!(value >= 0 && value < 1)) {
                throw TensorException.argument("sgd", "0 <= momentum < 1 must hold, got " + value,
                        "use a value in [0, 1)");
            }
            momentum = value;
            return this;
        }

        /** Uses Nesterov momentum. */
        public Builder nesterov() {
            nesterov = true;
            return this;
        }

        @Override
        Rule rule(double decay) {
            return new Rule.Sgd(momentum, 0, decay, nesterov);
        }
    }
}
