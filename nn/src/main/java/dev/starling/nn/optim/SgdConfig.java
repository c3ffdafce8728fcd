package dev.starling.nn.optim;

import dev.starling.tensor.op.Update;

/**
 * The settings of {@link Sgd}; its builder explains them.
 *
 * @param momentum in [0, 1)
 * @param weightDecay of the parameters that are not exempt
 * @param nesterov whether the momentum is Nesterov's
 * @param schedule learning rate by step
 */
record SgdConfig(double momentum, double weightDecay, boolean nesterov, Schedule schedule) {
    Update.Sgd op(double rate, double decay) {
        return new Update.Sgd(rate, momentum, 0, decay, nesterov);
    }
}
