package dev.starling.nn.train;

import java.nio.file.Path;

/** Receives the events of a run on the training thread. An exception that a listener throws ends the run. */
public interface TrainingListener {
    /** Called when the run starts or resumes from a checkpoint. */
    default void started(Progress progress) {
    }

    /**
     * Called when an epoch starts, or resumes from a checkpoint or from a state that a strategy restored; steps follow.
     */
    default void epochStarted(Progress progress) {
    }

    /** Called after a step. */
    default void stepEnded(Progress progress) {
    }

    /** Called when an epoch has ended and was evaluated. */
    default void epochEnded(Progress progress, EpochReport report) {
    }

    /** Called when a checkpoint is on disk. Steps may have been completed while it was written. */
    default void checkpointSaved(Progress progress, Path manifest) {
    }

    /** Called when the run ends, also if it fails. */
    default void ended(Progress progress) {
    }
}
