package dev.starling.nn.train;

import dev.starling.nn.Parameter;
import java.util.Map;

/**
 * A listener whose state is part of the run's: checkpoints contain it, and a run that resumes continues with it. A
 * process that joins a run receives the notes of those that train already, and where a strategy transfers the whole
 * state (ring), the tensors too. A listener that is new to the run starts with the state that it has.
 */
public interface ResumableListener extends TrainingListener {
    /** Returns the state as texts by name. */
    Map<String, String> notes();

    /** Replaces the state by notes of this class of listener. */
    void restore(Map<String, String> notes);

    /**
     * Returns the tensors that belong to the state, by name; by default there are none. They are the same objects at
     * each call. All ranks that share batches must have the same.
     */
    default Map<String, Parameter> tensors() {
        return Map.of();
    }
}
