package dev.starling.nn.train;

import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;

/**
 * Connects a trainer to the other processes of a run. {@link #share} distinguishes two kinds:
 *
 * <ul>
 * <li><em>synchronous</em>: each rank computes a part of every batch, {@link Share.Part} or {@link Share.OwnPart}. All
 * ranks are at the same step, and methods marked collective are called on all of them at the same point. Such a
 * strategy implements {@link Collective};
 * <li><em>asynchronous</em>: each rank trains on a {@link Share.Shard} of the data, or its {@link Share.Own}, at its
 * own pace, and no rank may wait for another.
 * </ul>
 *
 * <p>These methods suffice for a strategy that averages gradients or weights. More is asked only of a strategy that
 * implements further interfaces:
 *
 * <ul>
 * <li>{@link Collective}: ranks agree on the end of the run and add up what they measure;
 * <li>{@link StreamsGradients}: the strategy uses each gradient while the backward pass still runs;
 * <li>{@link StepsElsewhere}: optimisers in other processes take the steps;
 * <li>{@link Concludes}: the strategy has something to do after the last step.
 * </ul>
 *
 * <p>All calls come from the training thread. Any method may throw to end the run, for example when a peer is lost; the
 * parameters are then those after the last complete step. A strategy that survives such a loss restores a state that
 * all ranks share with {@link TrainingState#restore}, from within any method, and training continues from that state.
 * Rank, world and share may change after each step and whenever the state is restored.
 *
 * <p>In a step, the trainer computes the gradients and calls {@link #beforeStep}, the optimiser, and
 * {@link #afterStep}.
 */
public interface DistributionStrategy extends AutoCloseable {
    /** What becomes of a step whose gradients are final. */
    enum Step {
        /** The local optimiser takes the step. */
        LOCAL,
        /** The strategy has taken the step, with optimisers in other processes: the weights are those after it. */
        ELSEWHERE,
        /** The strategy has restored the state, and the step does not count. */
        RESTORED
    }

    /** Returns the rank of this process, from 0. */
    int rank();

    /** Returns whether this process saves checkpoints; by default, rank 0 does. */
    default boolean savesCheckpoints() {
        return rank() == 0;
    }

    /** Returns the number of processes. */
    int world();

    /**
     * Returns the share of the data that this process trains on. It is of the same kind on all ranks, and all shares
     * together are the whole data.
     */
    Share share();

    /**
     * Called once before the first step. All processes start with the state of rank 0, which alone reads a checkpoint
     * if there is one. A process that joins later starts with the state of the current members. Collective.
     *
     * @param state stays the same object during the run
     */
    void start(TrainingState state);

    /**
     * Called when all gradients are final. Gradients are weighted: their sum over the ranks is the gradient of the mean
     * over all rows of the step.
     *
     * @param gradients by index in {@link TrainingState#optimizer()}'s list of parameters, {@code null} where there is
     *     none: the parameter is frozen, the loss does not depend on it, or this rank has no rows of the batch. The
     *     strategy may replace them by tensors that live until the end of the step. It must not change them in place:
     *     gradients may share memory with each other, and a replay of a {@linkplain TrainingStep#captured captured}
     *     step does not compute those again that are the same for every batch
     */
    Step beforeStep(Tensor[] gradients);

    /** Called after a step that counts. The position in the state is already that of the next step. */
    default void afterStep() {
    }

    /**
     * Called between two steps before the model is evaluated or saved. Makes the state of this process that of the run:
     * a synchronous strategy averages what differs between ranks (running statistics), and a strategy that keeps
     * parameters elsewhere fetches them, with everything else that a checkpoint must contain. Collective if
     * synchronous.
     */
    default void settle() {
    }

    /** Leaves the group of processes. */
    @Override
    default void close() {
    }
}
