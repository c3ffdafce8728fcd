package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.train.TrainingListener;
import java.io.Serializable;

/** Creates a listener in an executor; values that a lambda captures must be serialisable. */
@FunctionalInterface
public interface WorkerListenerFactory extends Serializable {
    /**
     * Creates a listener of one worker.
     *
     * @param model the model that the worker trains; the worker closes it, after the listener's last call
     * @param rank of the worker, from 0
     */
    TrainingListener make(Layer model, int rank);
}
