package dev.starling.nn.train;

import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;

/**
 * What makes one of many processes out of a trainer. Of two kinds, told apart by {@link #share}:
 *
 * <ul>
 * <li><em>synchronous</em>, where each rank takes a part of every batch, {@link Share.Part} or {@link Share.OwnPart}:
 * all ranks are at the same step, so that methods marked collective are called on all of them at the same place;
 * <li><em>asynchronous</em>, where each takes a {@link Share.Shard} of the data, or its {@link Share.Own}, at its own
 * pace, and no rank may wait for another.
 * </ul>
 *
 * <p>All calls come from the training thread. Any method may throw to end the run, for example when a peer is lost; the
 * parameters are then as after the last complete step. A strategy that lives through such a loss brings the state back
 * to one that all ranks share with {@link TrainingState#restore}, from within any method; training goes on from there.
 * Rank, world and share may change after each step and whenever the state was restored.
 *
 * <p>In a step, the trainer calls {@link #beforeForward} and {@link #gradient}s, {@link #beforeStep}, the optimiser,
 * {@link #afterStep}, then {@link #stops}.
 */
public interface DistributionStrategy extends AutoCloseable {
    /** Returns the number of this process, from 0. Rank 0 saves checkpoints. */
    int rank();

    /** Returns the number of processes. */
    int world();

    /** Returns what this process takes of the data. On all ranks of one kind, and together the whole. */
    Share share();

    /**
     * Is called once before the first step: makes all processes start with the state of rank 0, which alone has read a
     * checkpoint if there is one; a process that joins later starts with the state of those who are there. Collective.
     *
     * @param state stays the same object during the run
     */
    void start(TrainingState state);

    /**
     * Is called before each forward pass; several in a step if gradients are accumulated.
     *
     * @param input what the model is given, {@code [rows, ..]}; without rows if this process has no part in a batch,
     *     then no forward pass follows
     */
    default void beforeForward(Tensor input) {
    }

    /**
     * Sees a gradient as soon as it is final, while the backward pass goes on. Called once a step for each parameter
     * that the loss depends on, on every rank in the same order, unless this rank has no rows. Gradients are weighted:
     * the sum over ranks is the gradient of the mean over all rows of the step.
     *
     * @param index of the parameter in {@link TrainingState#optimizer()}'s list
     * @param gradient lives until the end of the step; any strides; not to be changed before {@link #beforeStep}
     */
    void gradient(int index, Tensor gradient);

    /**
     * Tells whether others see this process's gradients: then a loss is known to be finite before its backward pass,
     * which on a GPU makes the host wait.
     */
    default boolean sendsGradients() {
        return true;
    }

    /**
     * Tells whether optimisers elsewhere take the steps, with the gradients as they come: no step can be left out then
     * because some are not finite, as training in f16 does at times.
     */
    default boolean stepsElsewhere() {
        return false;
    }

    /**
     * Is called when all gradients are final.
     *
     * @param gradients by index, {@code null} where there is none; the strategy may put others in their place, which
     *     live until the end of the step
     * @return whether the local optimiser takes its step. If not, the strategy has taken it itself, or has restored the
     *     state, and the step does not count
     */
    boolean beforeStep(Tensor[] gradients);

    /** Is called after the optimiser's step; the state's position is the next step's already. */
    default void afterStep() {
    }

    /**
     * Is called at the end of each step to agree on ending the run. Collective; a wish may take effect a step later, at
     * the same step on all ranks.
     *
     * @param wanted whether this process is to end
     * @return whether the run ends here
     */
    default boolean stops(boolean wanted) {
        return wanted;
    }

    /**
     * Is called between two steps before the model is measured or saved: makes the state of this process the run's. A
     * synchronous strategy brings together what differs between ranks (running statistics); one that keeps parameters
     * elsewhere fetches them, with all that a checkpoint must hold. Collective if synchronous.
     */
    default void settle() {
    }

    /**
     * Is called on rank 0 after {@link #settle}, when a checkpoint is to be saved: begins to save what belongs to it
     * but is too large for this process. All that is saved is as it is now; it may change when this has returned.
     *
     * @param directory of the checkpoint, which {@link TrainingState#source} finds the parts in again
     * @return what to wait for before the checkpoint counts; none unless overridden
     */
    default Parts saveParts(Path directory) {
        return Parts.NONE;
    }

    /**
     * Adds up numbers over all ranks, in place. Called on synchronous strategies only. Collective.
     *
     * @param values as many on every rank
     */
    default void sum(double[] values) {
    }

    /**
     * Is called after the last step of the last epoch, before the model is measured and saved for the last time. A
     * strategy whose processes do not wait for each other may do so here, with a deadline, so that the model is what
     * all have learnt.
     */
    default void conclude() {
    }

    /**
     * Is called when the run has come to its end, and not if it fails: brings what this process still owes the others
     * to its end, so that it can leave without being missed. Collective if synchronous.
     */
    default void finish() {
    }

    /** Leaves the other processes. */
    @Override
    void close();

    /** Tells whether all ranks are at the same step, each with its part of every batch. */
    default boolean isSynchronous() {
        return share().isSynchronous();
    }
}
