package dev.starling.nn.train;

import dev.starling.tensor.Tensor;

/**
 * A {@link DistributionStrategy} that receives each gradient as soon as it is final, so that communication overlaps the
 * backward pass. In a step, the trainer calls {@link #beforeForward}, {@link #gradient} and then
 * {@link DistributionStrategy#beforeStep}, which receives the same gradients.
 */
public interface StreamsGradients {
    /** Ignores the calls; its strategy receives gradients, and perhaps sends them, before the step. */
    StreamsGradients NONE = (index, gradient) -> { };

    /** Returns a strategy as what implements this interface; {@link #NONE} if it does not. */
    static StreamsGradients of(DistributionStrategy strategy) {
        return strategy instanceof StreamsGradients streams ? streams : NONE;
    }

    /**
     * Called before each forward pass; several times per step if gradients are accumulated.
     *
     * @param input the model's input, or the first of several, {@code [rows, ..]}. It has no rows if this process has
     *     no part of the batch; then no forward pass follows
     */
    default void beforeForward(Tensor input) {
    }

    /**
     * Receives a gradient while the backward pass is still running. Called once per step for each parameter that the
     * loss depends on, in the same order on every rank, unless this rank has no rows.
     *
     * @param index index of the parameter in {@link TrainingState#optimizer()}'s list
     * @param gradient lives until the end of the step; may have any strides; must not be changed in place
     */
    void gradient(int index, Tensor gradient);

    /**
     * Called when a step fails, before its gradients are freed: a strategy that has not sent all of them must not read
     * them any more.
     */
    default void onFailedStep() {
    }

    /**
     * Returns whether other processes receive this process's gradients. If so, each loss is checked to be finite before
     * its backward pass, which makes the host wait on a GPU. A strategy that does not implement this interface counts
     * as one that sends gradients.
     */
    default boolean sendsGradients() {
        return true;
    }
}
