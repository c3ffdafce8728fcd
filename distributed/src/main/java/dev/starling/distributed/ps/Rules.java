package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/** Which parameters servers keep, and by which rule they change each. */
final class Rules {
    private Rules() { }

    /**
     * Returns the parameters in the optimiser's order.
     *
     * @param given the rule for all, or {@code null} for that of the worker's optimiser
     * @throws DistributedException if servers do not know the optimiser's rule
     */
    static List<Plan.Dense> of(TrainingState state, ServerOptimizer given) {
        List<Plan.Dense> dense = new ArrayList<>();
        List<Parameter> parameters = state.optimizer().parameters();
        Map<Parameter, String> paths = new IdentityHashMap<>();
        state.model().parameters().forEach((path, p) -> paths.put(p, path));
        for (int i = 0; i < parameters.size(); i++) {
            Parameter p = parameters.get(i);
            dense.add(new Plan.Dense(paths.getOrDefault(p, "parameter " + i), p.shape().count(),
                    given != null ? given : ofOptimizer(state.optimizer(), i)));
        }
        return dense;
    }

    private static ServerOptimizer ofOptimizer(Optimizer optimizer, int parameter) {
        Update rule = optimizer.rule(parameter);
        if (rule == null) {
            throw new DistributedException("servers cannot take the steps of a " + optimizer.getClass()
                    .getSimpleName() + "; train with Sgd, Adam or AdamW, or give the builder an optimizer");
        }
        return ServerOptimizer.of(rule);
    }
}
