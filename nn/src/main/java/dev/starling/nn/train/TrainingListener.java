package dev.starling.nn.train;

import java.nio.file.Path;

/** Is told how a run goes, on the training thread; what it throws ends the run. */
public interface TrainingListener {
    /** The run begins, or goes on from a checkpoint. */
    default void started(Progress progress) {
    }

    /** An epoch begins, or goes on from a checkpoint or from what a strategy has restored; steps follow. */
    default void epochStarted(Progress progress) {
    }

    /** A step was taken. */
    default void stepEnded(Progress progress) {
    }

    /** An epoch ended and was evaluated. */
    default void epochEnded(Progress progress, EpochReport report) {
    }

    /** A checkpoint is on the disk; steps may have been taken while it was written. */
    default void checkpointSaved(Progress progress, Path manifest) {
    }

    /** The run ended, be it by a failure. */
    default void ended(Progress progress) {
    }
}
