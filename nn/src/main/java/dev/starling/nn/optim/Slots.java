package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.function.Predicate;

/**
 * The parameters of an optimiser and its state for each of them, which starts as zeros of the same shape. Frozen
 * parameters are included so that they can be unfrozen; their state does not change while they are frozen.
 */
final class Slots implements AutoCloseable {
    final List<Parameter> parameters;
    /** By parameter, whether weight decay applies to it. */
    final boolean[] decays;
    final List<String> paths;
    /** By parameter, the number of steps that left it unchanged. */
    final long[] missed;
    /** By parameter, whether the last step left it unchanged. */
    private final boolean[] idle;
    private final Map<String, Parameter> state = new LinkedHashMap<>();
    private final List<Parameter[]> stateTensors = new ArrayList<>();
    /**
     * On a device whose memory the host cannot access: finite if the last step's gradients were. Otherwise
     * {@code null}.
     */
    private Parameter check;
    /** The gradients of the last step if {@link #check} refers to them, otherwise {@code null}. */
    private Tensor[] checked;

    /** Returns a weight decay, or throws an exception if it is negative, infinite or NaN. */
    static double decay(String optimizer, double value) {
        if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument(optimizer, "weight decay must be >= 0 and finite, got " + value,
                    "use a finite number >= 0");
        }
        return value;
    }

    Slots(Layer model, Predicate<String> selected, Predicate<String> exempt) {
        List<Parameter> trained = new ArrayList<>();
        List<String> names = new ArrayList<>();
        model.parameters().forEach((path, parameter) -> {
            if (selected.test(path)) {
                trained.add(parameter);
                names.add(path);
            }
        });
        if (trained.isEmpty()) {
            throw TensorException.argument("optimizer", model.parameters().isEmpty() ? "the model has no parameters"
                    : "only(..) selects none of the model's parameters",
                    "override Layer.visit to pass parameters to the visitor, or select some of their paths");
        }
        parameters = List.copyOf(trained);
        paths = names;
        missed = new long[names.size()];
        idle = new boolean[names.size()];
        decays = new boolean[names.size()];
        for (int i = 0; i < decays.length; i++) {
            decays[i] = !exempt.test(names.get(i));
        }
    }

    /** Adds a state tensor named {@code name} for each parameter and returns these tensors. */
    Parameter[] add(String name) {
        Parameter[] added = new Parameter[parameters.size()];
        for (int i = 0; i < added.length; i++) {
            added[i] = Parameter.zerosLike(parameters.get(i));
            state.put(paths.get(i) + "." + name, added[i]);
        }
        stateTensors.add(added);
        return added;
    }

    /**
     * Applies an operation to each parameter that has a gradient and is not frozen, with the state tensors that were
     * {@link #add}ed for it. Applies none if a gradient has an element that is infinite or NaN.
     *
     * @param rule returns the operation for the index of a parameter
     */
    void step(Optimizer optimizer, IntFunction<Update> rule, Tensor guard, Tensor[] gradients) {
        requireMatching(gradients);
        int count = 0;
        for (int i = 0; i < gradients.length; i++) {
            count += changes(i, gradients) ? 1 : 0;
        }
        checked = null;
        if (count > 0) {
            update(optimizer, rule, guard, gradients, count);
        }
        for (int i = 0; i < gradients.length; i++) {
            idle[i] = !changes(i, gradients);
            missed[i] += idle[i] ? 1 : 0;
        }
    }

    private void update(Optimizer optimizer, IntFunction<Update> rule, Tensor guard, Tensor[] gradients, int count) {
        Update[] ops = new Update[count];
        // Allocated for each step because a recorder may keep them.
        Tensor[][] operands = new Tensor[count][2 + stateTensors.size()];
        for (int i = 0, n = 0; i < gradients.length; i++) {
            if (changes(i, gradients)) {
                convertState(i);
                Tensor parameter = parameters.get(i).value();
                ops[n] = rule.apply(i);
                Tensor[] each = operands[n++];
                each[0] = parameter;
                each[1] = gradients[i].to(parameter.device());
                for (int k = 0; k < stateTensors.size(); k++) {
                    each[2 + k] = stateTensors.get(k)[i].value();
                }
            }
        }
        if (operands[0][0].device().backend().hostVisible()) {
            requireFinite(optimizer, gradients);
            Tensor.applyAll(ops, operands, guard);
        } else {
            try (Scope scope = Scope.open("guard")) {
                Tensor.applyAll(ops, operands, combineGuard(operands, guard, gradients));
            }
        }
    }

    /** Undoes the counts of the last step if {@code completed} is the number of steps before it. */
    void resume(long completed, long steps) {
        for (int i = 0; completed == steps - 1 && i < idle.length; i++) {
            missed[i] -= idle[i] ? 1 : 0;
            idle[i] = false;
        }
    }

    /** Sets the counts of missed steps from a checkpoint, which may contain none. */
    void resume(long[] counts) {
        Arrays.fill(idle, false);
        for (int i = 0; i < missed.length; i++) {
            missed[i] = i < counts.length ? counts[i] : 0;
        }
    }

    private boolean changes(int parameter, Tensor[] gradients) {
        return gradients[parameter] != null && parameters.get(parameter).requiresGradient();
    }

    /** Converts the state of a parameter to the parameter's type and device if those have changed. */
    private void convertState(int parameter) {
        Tensor value = parameters.get(parameter).value();
        for (int k = 0; k < stateTensors.size(); k++) {
            Parameter slot = stateTensors.get(k)[parameter];
            slot.to(value.device());
            slot.to(value.dtype());
        }
    }

    Map<String, Parameter> state() {
        for (int i = 0; i < decays.length; i++) {
            convertState(i);
        }
        return new LinkedHashMap<>(state);
    }

    // ---- gradients that are not finite ----

    private void requireFinite(Optimizer optimizer, Tensor[] gradients) {
        int at = optimizer.notFinite(gradients);
        if (at >= 0) {
            throw notFinite(List.of(gradients[at].spec()), "the gradient of " + paths.get(at)
                    + " has an element that is infinite or NaN");
        }
    }

    static TensorException notFinite(List<Spec> gradient, String relation) {
        return new TensorException(TensorException.Problem.ANOMALY, "optimizer step", gradient, relation,
                "lower the learning rate, clip gradients, or find the first operation that is not finite with "
                + "Tape.detectAnomalies; weights and the optimiser's state are those before the step");
    }

    /**
     * Returns a guard that is finite if {@code guard} and the sum of each gradient are finite. The host does not wait
     * for it.
     */
    private Tensor combineGuard(Tensor[][] operands, Tensor guard, Tensor[] gradients) {
        Tensor[] sums = new Tensor[operands.length];
        for (int n = 0; n < sums.length; n++) {
            Tensor gradient = operands[n][1];
            sums[n] = (gradient.dtype().bytes() < Float.BYTES ? gradient.to(DType.F32) : gradient).sum()
                    .to(DType.F32).mul(0);
        }
        Tensor sum = Tensor.stack(0, sums).sum();
        if (check == null || check.value().device() != sum.device()) {
            if (check != null) {
                check.close();
            }
            check = Parameter.buffer(sum);
        } else {
            check.set(sum);
        }
        checked = gradients;
        return guard == null ? sum : sum.add(guard.to(DType.F32));
    }

    /** Returns whether the last step found on the device that gradients are not finite. Waits for the device. */
    boolean skipped() {
        return checked != null && !Double.isFinite(check.value().item());
    }

    /** Throws an exception if the last step was {@link #skipped}. */
    void requireFinite(Optimizer optimizer) {
        if (skipped()) {
            requireFinite(optimizer, checked);
            throw notFinite(List.of(), "the sum of a gradient's elements is infinite or NaN");
        }
    }

    private void requireMatching(Tensor[] gradients) {
        if (gradients == null || gradients.length != parameters.size()) {
            throw TensorException.argument("optimizer", "expected " + parameters.size() + " gradients, got "
                    + (gradients == null ? "none" : gradients.length),
                    "pass one for each of parameters(), null for a parameter without gradient");
        }
        for (int i = 0; i < gradients.length; i++) {
            Tensor g = gradients[i];
            if (g != null && !g.shape().equals(parameters.get(i).shape())) {
                throw new TensorException(TensorException.Problem.SHAPE, "optimizer step",
                        List.of(parameters.get(i).value().spec(), g.spec()),
                        "the gradient of " + paths.get(i) + " must have the parameter's shape",
                        "pass gradients in the order of parameters()");
            }
        }
    }

    @Override
    public void close() {
        state.values().forEach(Parameter::close);
        if (check != null) {
            check.close();
        }
    }
}
