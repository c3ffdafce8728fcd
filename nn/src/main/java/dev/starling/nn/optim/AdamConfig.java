package dev.starling.nn.optim;

import dev.starling.tensor.op.Update;

/**
 * The settings of {@link Adam}; its builder explains them.
 *
 * @param decoupled whether weight decay is applied to the weights instead of the gradient
 * @param weightDecay of the parameters that are not exempt
 * @param schedule learning rate by step
 * @param beta1 decay rate of the gradient's mean
 * @param beta2 decay rate of the mean of the gradient's square
 * @param epsilon added to the divisor
 */
record AdamConfig(boolean decoupled, double weightDecay, Schedule schedule, double beta1, double beta2,
        double epsilon) {
    /** Returns the operation of a step; {@code step} counts from 1. */
    Update.Adam op(double rate, double decay, long step) {
        return new Update.Adam(rate, beta1, beta2, epsilon, decay, decoupled, step);
    }
}
