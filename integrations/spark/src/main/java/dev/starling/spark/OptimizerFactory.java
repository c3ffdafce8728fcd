package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import java.io.Serializable;

/** Creates an optimiser in an executor, for example {@code (model, steps) -> Adam.over(model).rate(1e-3).build()}. */
@FunctionalInterface
public interface OptimizerFactory extends Serializable {
    /**
     * Creates an optimiser.
     *
     * @param model the model whose parameters it updates
     * @param steps number of steps of the whole run, for schedules
     */
    Optimizer over(Layer model, long steps);
}
