package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The optimiser of {@link TensorRule}s: passes the directions that they compute to gradient descent, which has the
 * rates, the weight decay and the check of the gradients.
 */
final class TensorRuleOptimizer implements OptimizerAround {
    private final RuleOptimizer descent;
    /** By parameter. */
    private final TensorRule[] rules;
    private final Parameter[][] slots;
    private final Map<String, Parameter> state = new LinkedHashMap<>();

    TensorRuleOptimizer(RuleOptimizer descent, TensorRuleBuilder<?> builder) {
        this.descent = descent;
        int count = descent.parameters().size();
        rules = new TensorRule[count];
        slots = new Parameter[count][];
        for (int i = 0; i < count; i++) {
            Parameter parameter = descent.parameters().get(i);
            String path = descent.path(i);
            rules[i] = builder.rule(path, parameter);
            Map<String, Parameter> own = new LinkedHashMap<>();
            rules[i].slots(parameter.shape()).forEach((name, shape) ->
                    own.put(path + "." + name, Parameter.zeros(parameter, shape)));
            slots[i] = own.values().toArray(Parameter[]::new);
            state.putAll(own);
            convertState(i);
        }
    }

    @Override
    public Optimizer inner() {
        return descent;
    }

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        descent.requireMatching(gradients);
        boolean visible = parameters().getFirst().master().device().backend().hostVisible();
        if (visible && notFinite(gradients) >= 0) {
            // Throws an exception that names the parameter.
            descent.step(guard, gradients);
            return;
        }
        try (Scope scope = Scope.open("direction")) {
            Tensor common = visible ? guard : Recorder.with(Recorder.NONE, () -> finite(guard, gradients));
            Tensor[] directions = new Tensor[gradients.length];
            Tensor[][] results = new Tensor[gradients.length][];
            for (int i = 0; i < gradients.length; i++) {
                int at = i;
                if (gradients[i] != null && parameters().get(i).requiresGradient()) {
                    results[i] = Recorder.with(Recorder.NONE, () -> compute(at, gradients[at]));
                    directions[i] = results[i][0];
                }
            }
            // Finds directions that are not finite, with which the state must not change either.
            descent.step(guard, directions);
            Tensor found = descent.found();
            Recorder.with(Recorder.NONE, () -> {
                store(results, found == null ? common : RuleOptimizer.both(found, common));
                return results;
            });
        }
    }

    /** Returns a number that is finite only if the guard, if there is one, and all gradients are. */
    private @Nullable Tensor finite(@Nullable Tensor guard, Tensor[] gradients) {
        Tensor sum = guard;
        for (int i = 0; i < gradients.length; i++) {
            if (gradients[i] != null && parameters().get(i).requiresGradient()) {
                Tensor gradient = gradients[i].to(parameters().get(i).master().device());
                // The sum of many numbers may exceed what 16 bits can represent.
                Tensor zero = (gradient.dtype().bytes() < Float.BYTES ? gradient.to(DType.F32) : gradient).sum().mul(0);
                sum = sum == null ? zero : RuleOptimizer.both(zero, sum);
            }
        }
        return sum;
    }

    /** Returns the direction of a parameter's step and the new state, in the current scope. */
    private Tensor[] compute(int parameter, Tensor gradient) {
        Tensor weights = parameters().get(parameter).master();
        convertState(parameter);
        Tensor[] old = Arrays.stream(slots[parameter]).map(Parameter::value).toArray(Tensor[]::new);
        try (Scope scope = Scope.open("direction")) {
            DType type = old[0].dtype();
            Tensor own = gradient.to(weights.device()).to(type);
            Tensor[] results = rules[parameter].step(weights.to(type), own, old, rate(parameter));
            results[0] = results[0].to(weights.dtype());
            for (Tensor each : results) {
                scope.keep(each);
            }
            return results;
        }
    }

    /** Stores the new state of each parameter that has a direction, unless the guard forbids it. */
    private void store(Tensor[][] results, @Nullable Tensor guard) {
        for (int i = 0; i < results.length; i++) {
            if (results[i] != null) {
                Update[] ops = new Update[slots[i].length];
                Tensor[][] operands = new Tensor[ops.length][];
                for (int k = 0; k < ops.length; k++) {
                    ops[k] = new Update.Assign();
                    operands[k] = new Tensor[] {slots[i][k].value(), results[i][k + 1]};
                }
                Tensor.applyAll(ops, operands, guard);
            }
        }
    }

    /** Converts the state of a parameter to the parameter's type and device if those have changed. */
    private void convertState(int parameter) {
        Tensor value = parameters().get(parameter).master();
        boolean widens = rules[parameter].widensState() && value.dtype().bytes() < Float.BYTES;
        for (Parameter slot : slots[parameter]) {
            slot.to(value.device());
            slot.to(widens ? DType.F32 : value.dtype());
        }
    }

    @Override
    public WholeRule wholeRule(int parameter) {
        return new WholeRule(rules[parameter], descent.rule(parameter));
    }

    @Override
    public List<Parameter> stateOf(int parameter) {
        convertState(parameter);
        return List.of(slots[parameter]);
    }

    @Override
    public Map<String, Parameter> state() {
        for (int i = 0; i < slots.length; i++) {
            convertState(i);
        }
        return new LinkedHashMap<>(state);
    }

    @Override
    public Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>(descent.settings());
        settings.put("optimiser", descent.describe(rules, TensorRule::toString) + ", stepping by "
                + settings.get("optimiser"));
        return settings;
    }

    @Override
    public String toString() {
        return descent.describe(rules[0]);
    }

    @Override
    public void close() {
        state.values().forEach(Parameter::close);
        descent.close();
    }
}
