package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.train.TrainingListener;
import java.io.Serializable;

/** Makes a listener in an executor; what a lambda captures must be serialisable. */
@FunctionalInterface
public interface WorkerListenerFactory extends Serializable {
    /**
     * Makes a listener of one worker.
     *
     * @param model that it trains; stays the worker's to close, after the listener's last call
     * @param rank of the worker, from 0
     */
    TrainingListener make(Layer model, int rank);
}
