package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Tensor;

/**
 * What makes one of many processes out of a trainer. All calls come from the training thread. Methods may throw to end
 * the run, for example when a peer is lost; the parameters are then as after the last complete step.
 */
public interface DistributionStrategy extends AutoCloseable {
    /** Returns the number of this process, from 0. Rank 0 saves checkpoints. */
    int rank();

    /** Returns the number of processes. */
    int world();

    /** Is called once before the first step, after a checkpoint was loaded: makes all processes start alike. */
    void start(Layer model, Optimizer optimizer);

    /**
     * Sees a gradient as soon as it is final, while the backward pass goes on, in the same order on every rank.
     *
     * @param index of the parameter in {@link Optimizer#parameters}
     * @param gradient lives until the end of the step; not to be changed before {@link #beforeStep}
     */
    void gradient(int index, Tensor gradient);

    /**
     * Is called when all gradients are final.
     *
     * @param gradients by index, {@code null} where there is none; the strategy may put others in their place, which
     *     live until the end of the step
     * @return whether the local optimiser takes its step
     */
    boolean beforeStep(Tensor[] gradients);

    /** Is called after the optimiser's step. */
    void afterStep();

    /** Leaves the other processes. */
    @Override
    void close();
}
