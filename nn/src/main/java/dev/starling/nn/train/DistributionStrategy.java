package dev.starling.nn.train;

import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;

/**
 * Connects a trainer to the other processes of a run. {@link #share} distinguishes two kinds:
 *
 * <ul>
 * <li><em>synchronous</em>: each rank computes a part of every batch, {@link Share.Part} or {@link Share.OwnPart}. All
 * ranks are at the same step, and methods marked collective are called on all of them at the same point;
 * <li><em>asynchronous</em>: each rank trains on a {@link Share.Shard} of the data, or its {@link Share.Own}, at its
 * own pace, and no rank may wait for another.
 * </ul>
 *
 * <p>All calls come from the training thread. Any method may throw to end the run, for example when a peer is lost; the
 * parameters are then those after the last complete step. A strategy that survives such a loss restores a state that
 * all ranks share with {@link TrainingState#restore}, from within any method, and training continues from that state.
 * Rank, world and share may change after each step and whenever the state is restored.
 *
 * <p>In a step, the trainer calls {@link #beforeForward} and {@link #gradient}, then {@link #beforeStep}, the
 * optimiser, {@link #afterStep}, and {@link #stops}.
 */
public interface DistributionStrategy extends AutoCloseable {
    /** Returns the rank of this process, from 0. Rank 0 saves checkpoints. */
    int rank();

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
     * Called before each forward pass; several times per step if gradients are accumulated.
     *
     * @param input the model's input, {@code [rows, ..]}. It has no rows if this process has no part of the batch; then
     *     no forward pass follows
     */
    default void beforeForward(Tensor input) {
    }

    /**
     * Receives a gradient as soon as it is final, while the backward pass is still running. Called once per step for
     * each parameter that the loss depends on, in the same order on every rank, unless this rank has no rows. Gradients
     * are weighted: their sum over the ranks is the gradient of the mean over all rows of the step.
     *
     * @param index index of the parameter in {@link TrainingState#optimizer()}'s list
     * @param gradient lives until the end of the step; may have any strides; must not be changed before
     *     {@link #beforeStep}
     */
    void gradient(int index, Tensor gradient);

    /**
     * Returns whether other processes receive this process's gradients. If so, each loss is checked to be finite before
     * its backward pass, which makes the host wait on a GPU.
     */
    default boolean sendsGradients() {
        return true;
    }

    /**
     * Returns whether optimisers in other processes apply the gradients as they arrive. Then a step whose gradients are
     * not finite cannot be skipped, as training in f16 sometimes requires.
     */
    default boolean stepsElsewhere() {
        return false;
    }

    /**
     * Called when all gradients are final.
     *
     * @param gradients by index, {@code null} where there is none; the strategy may replace them by tensors that live
     *     until the end of the step
     * @return whether the local optimiser performs the step. If not, the strategy has performed it itself, or has
     *     restored the state and the step does not count
     */
    boolean beforeStep(Tensor[] gradients);

    /** Called after the optimiser's step. The position in the state is already that of the next step. */
    default void afterStep() {
    }

    /**
     * Called at the end of each step to agree on ending the run. Collective; a request may take effect one step later,
     * at the same step on all ranks.
     *
     * @param requested whether this process requests the end
     * @return whether the run ends here
     */
    default boolean stops(boolean requested) {
        return requested;
    }

    /**
     * Called between two steps before the model is evaluated or saved. Makes the state of this process that of the run:
     * a synchronous strategy averages what differs between ranks (running statistics), and a strategy that keeps
     * parameters elsewhere fetches them, with everything else that a checkpoint must contain. Collective if
     * synchronous.
     */
    default void settle() {
    }

    /**
     * Called on rank 0 after {@link #settle} when a checkpoint is saved. Starts to save those parts of the checkpoint
     * that are too large for this process. The saved state is that at the time of the call; it may change after this
     * method returns.
     *
     * @param directory directory of the checkpoint; {@link TrainingState#source} finds the parts there
     * @return the parts that must be complete before the checkpoint counts; none by default
     */
    default Parts saveParts(Path directory) {
        return Parts.NONE;
    }

    /**
     * Adds up numbers over all ranks, in place. Called only on synchronous strategies. Collective.
     *
     * @param values the same number of values on every rank
     */
    default void sum(double[] values) {
    }

    /**
     * Called after the last step of the last epoch, before the final evaluation and checkpoint. A strategy whose
     * processes do not wait for each other may wait here, with a deadline, so that the model includes the updates of
     * all processes.
     */
    default void conclude() {
    }

    /**
     * Called when the run completes, but not if it fails. Completes everything that other processes still need from
     * this process, so that it can leave. Collective if synchronous.
     */
    default void finish() {
    }

    /** Leaves the group of processes. */
    @Override
    void close();

    /** Returns whether all ranks are at the same step, each with its part of every batch. */
    default boolean isSynchronous() {
        return share().isSynchronous();
    }
}
