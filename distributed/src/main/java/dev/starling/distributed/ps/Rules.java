package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.AveragedWeights;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.WholeRule;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Determines which parameters and tables servers hold, and which rule they apply to each. */
final class Rules {
    private Rules() { }

    /**
     * Returns the parameters in the optimiser's order. The anchor of a table has no elements on servers.
     *
     * @param common the rule for all parameters, or {@code null} for that of the worker's optimiser
     * @throws DistributedException if servers do not support the optimiser or its rule
     */
    static List<Plan.Dense> of(TrainingState state, @Nullable Rule common, List<EmbeddingTable> tables) {
        if (state.optimizer() instanceof AveragedWeights) {
            throw new DistributedException("parameter servers compute no averages of weights; pass the optimiser "
                    + "without AveragedWeights");
        }
        List<Plan.Dense> dense = new ArrayList<>();
        List<Parameter> parameters = state.optimizer().parameters();
        Map<Parameter, String> paths = new IdentityHashMap<>();
        state.model().parameters().forEach((path, p) -> paths.put(p, path));
        for (int i = 0; i < parameters.size(); i++) {
            Parameter p = parameters.get(i);
            boolean anchor = tables.stream().anyMatch(t -> t.anchor() == p);
            String path = paths.getOrDefault(p, "parameter " + i);
            WholeRule whole = common == null ? state.optimizer().wholeRule(i) : null;
            Rule rule = common != null ? common : whole != null ? whole.descent() : ofOptimizer(state.optimizer(), i);
            dense.add(anchor ? new Plan.Dense(path, 0, rule) : new Plan.Dense(path, p.shape().count(), rule,
                    whole == null ? null : new Plan.Whole(whole.direction(), p.shape())));
        }
        return dense;
    }

    /** Returns the tables that servers hold. A table that is not in the model gets the rule of the first parameter. */
    static List<Plan.Table> ofTables(TrainingState state, @Nullable Rule common, List<EmbeddingTable> tables,
            int servers) {
        return tables.stream().map(table -> table.plan(servers, () -> common != null ? common
                : ofOptimizer(state.optimizer(), Math.max(0, state.optimizer().parameters().indexOf(table.anchor())))))
                .toList();
    }

    private static Rule ofOptimizer(Optimizer optimizer, int parameter) {
        Rule rule = optimizer.rule(parameter);
        if (rule == null && optimizer.wholeRule(parameter) != null) {
            throw new DistributedException("the rule of " + optimizer + " needs parameters as a whole, but servers "
                    + "hold the rows of an EmbeddingTable one by one; train with a rule for each element, such as Sgd "
                    + "or AdamW, or set EmbeddingTable.Builder.optimizer");
        }
        if (rule == null) {
            throw new DistributedException("parameter servers do not support the rule of " + optimizer.getClass()
                    .getSimpleName() + "; train with an optimiser of one rule, such as Sgd or AdamW, or set "
                    + "ParameterServer.Builder.optimizer");
        }
        return rule;
    }

    /**
     * Returns the learning rate of a parameter's next step.
     *
     * @throws TensorException if servers would refuse it
     */
    static double rate(Optimizer optimizer, int parameter) {
        return required(optimizer.rate(parameter));
    }

    /** As above, for the rows of a table: the rate of its path in the model, or the common one if it has none. */
    static double rate(Optimizer optimizer, EmbeddingTable table) {
        int anchor = optimizer.parameters().indexOf(table.anchor());
        return required(anchor < 0 ? optimizer.rate() : optimizer.rate(anchor));
    }

    private static double required(double rate) {
        if (!(rate >= 0 && rate < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("parameter server", "the learning rate of a step on servers must be >= 0 "
                    + "and finite, got " + rate, "correct the optimiser's schedule");
        }
        return rate;
    }

    /** Returns in how many of the optimiser's steps servers have changed a parameter. */
    static long steps(Optimizer optimizer, int parameter) {
        long[] missed = optimizer.missed();
        return optimizer.steps() - (parameter < missed.length ? missed[parameter] : 0);
    }

    /**
     * Counts a step that servers have taken. Parameters that are frozen, or on which the loss did not depend, have
     * missed it, as in a step of the optimiser.
     *
     * @param present by parameter, whether this worker had a gradient; it has none at all if it had no rows of the
     *     batch, and the loss of other workers then counts as one that depends on all parameters
     */
    static void countStep(Optimizer optimizer, boolean[] present) {
        boolean hadRows = false;
        for (boolean each : present) {
            hadRows |= each;
        }
        long[] missed = optimizer.missed();
        for (int i = 0; i < missed.length; i++) {
            boolean changed = optimizer.parameters().get(i).requiresGradient() && (present[i] || !hadRows);
            missed[i] += changed ? 0 : 1;
        }
        optimizer.resume(optimizer.steps() + 1, missed);
    }

    /**
     * Returns the name in checkpoints of a slot of a rule's state: its number, or its own name where two variants of
     * the rule have as many slots.
     */
    static String key(Rule rule, int slot) {
        boolean ambiguous = rule instanceof Rule.Rmsprop && rule.slots().size() == 2;
        return rule.name() + (ambiguous ? '.' + rule.slots().get(slot) : slot);
    }

    /**
     * Returns the tables of a model and other tables, each once, in an order that is the same on all workers.
     *
     * @throws TensorException if two tables have the same name, or another run uses one of them
     */
    static List<EmbeddingTable> tables(Module model, List<EmbeddingTable> others) {
        Map<String, EmbeddingTable> found = new LinkedHashMap<>();
        walk(model, found);
        others.forEach(table -> add(table, found));
        return List.copyOf(found.values());
    }

    private static void walk(Module layer, Map<String, EmbeddingTable> found) {
        if (layer instanceof EmbeddingTable table) {
            add(table, found);
        }
        layer.visit(new Module.Visitor() {
            @Override
            public void parameter(String name, Parameter parameter) {
            }

            @Override
            public void layer(String name, Module inner) {
                walk(inner, found);
            }
        });
    }

    private static void add(EmbeddingTable table, Map<String, EmbeddingTable> found) {
        EmbeddingTable other = found.putIfAbsent(table.name(), table);
        if (other != null && other != table) {
            throw TensorException.argument("parameter server", "two tables have the name " + table.name(),
                    "rename one, or use one table in both places");
        }
        if (table.isConnected()) {
            throw TensorException.argument("parameter server", "table " + table.name() + " is in use by another run",
                    "close that run's strategy first");
        }
    }
}
