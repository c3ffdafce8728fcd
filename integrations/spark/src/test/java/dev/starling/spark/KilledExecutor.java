package dev.starling.spark;

import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;

/** Kills an executor's process with signal 9 when the driver receives the progress of a step. */
final class KilledExecutor implements TrainingListener {
    private final long after;
    private volatile long step = -1;

    KilledExecutor(long after) {
        this.after = after;
    }

    /** Returns the step after which the process was killed, or -1. */
    long step() {
        return step;
    }

    @Override
    public void stepEnded(Progress progress) {
        if (step < 0 && progress.step() >= after) {
            step = progress.step();
            ProcessHandle.current().descendants().filter(p -> p.info().commandLine().orElse("")
                    .contains("CoarseGrainedExecutorBackend")).findFirst().orElseThrow().destroyForcibly();
        }
    }
}
