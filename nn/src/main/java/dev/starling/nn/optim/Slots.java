package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shaping;
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
 * The parameters of an optimiser, and what it keeps for each: zeros of the same shape at first. Frozen ones are among
 * them, so that they can be unfrozen; their state stays as it is meanwhile.
 */
final class Slots implements AutoCloseable {
    final List<Parameter> parameters;
    /** By parameter, whether weight decay applies to it. */
    final boolean[] decays;
    final List<String> paths;
    /** By parameter, in how many steps it stayed as it was. */
    final long[] missed;
    /** By parameter, whether the last step was one of these. */
    private final boolean[] sat;
    private final Map<String, Parameter> state = new LinkedHashMap<>();
    private final List<Parameter[]> kept = new ArrayList<>();
    /** On a device that the host cannot see into: finite if the last step's gradients were; {@code null} elsewhere. */
    private Parameter verdict;
    /** The gradients of the last step, if {@link #verdict} is about them. */
    private Tensor[] judged;

    /** Returns a weight decay, or throws if it is negative, infinite or NaN. */
    static double decay(String optimizer, double value) {
        if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument(optimizer, "weight decay must be >= 0 and finite, got " + value,
                    "change it");
        }
        return value;
    }

    Slots(Layer model, Predicate<String> wanted, Predicate<String> exempt) {
        List<Parameter> trained = new ArrayList<>();
        List<String> names = new ArrayList<>();
        model.parameters().forEach((path, parameter) -> {
            if (wanted.test(path)) {
                trained.add(parameter);
                names.add(path);
            }
        });
        if (trained.isEmpty()) {
            throw TensorException.argument("optimizer", model.parameters().isEmpty() ? "the model has no parameters"
                    : "only(..) chooses none of the model's parameters",
                    "override Layer.visit to show parameters, or choose some of their paths");
        }
        parameters = List.copyOf(trained);
        paths = names;
        missed = new long[names.size()];
        sat = new boolean[names.size()];
        decays = new boolean[names.size()];
        for (int i = 0; i < decays.length; i++) {
            decays[i] = !exempt.test(names.get(i));
        }
    }

    /** Adds a state tensor called {@code name} for each parameter and returns them. */
    Parameter[] add(String name) {
        Parameter[] added = new Parameter[parameters.size()];
        for (int i = 0; i < added.length; i++) {
            added[i] = Parameter.zerosLike(parameters.get(i));
            state.put(paths.get(i) + "." + name, added[i]);
        }
        kept.add(added);
        return added;
    }

    /**
     * Carries out an operation on each parameter that has a gradient and is not frozen, with what was {@link #add}ed
     * for it; on none if a gradient has an element that is infinite or NaN.
     *
     * @param rule the operation of a parameter's number
     */
    void step(Optimizer of, IntFunction<Update> rule, Tensor guard, Tensor[] gradients) {
        check(gradients);
        int count = 0;
        for (int i = 0; i < gradients.length; i++) {
            count += moves(i, gradients) ? 1 : 0;
        }
        judged = null;
        if (count > 0) {
            move(of, rule, guard, gradients, count);
        }
        for (int i = 0; i < gradients.length; i++) {
            sat[i] = !moves(i, gradients);
            missed[i] += sat[i] ? 1 : 0;
        }
    }

    private void move(Optimizer of, IntFunction<Update> rule, Tensor guard, Tensor[] gradients, int count) {
        Update[] ops = new Update[count];
        // A recorder may keep them.
        Tensor[][] operands = new Tensor[count][2 + kept.size()];
        for (int i = 0, n = 0; i < gradients.length; i++) {
            if (moves(i, gradients)) {
                follow(i);
                Tensor parameter = parameters.get(i).value();
                ops[n] = rule.apply(i);
                Tensor[] each = operands[n++];
                each[0] = parameter;
                each[1] = gradients[i].to(parameter.device());
                for (int k = 0; k < kept.size(); k++) {
                    each[2 + k] = kept.get(k)[i].value();
                }
            }
        }
        if (operands[0][0].device().backend().hostVisible()) {
            requireFinite(of, gradients);
            Tensor.applyAll(ops, operands, guard);
        } else {
            try (Scope scope = Scope.open("guard")) {
                Tensor.applyAll(ops, operands, judge(operands, guard, gradients));
            }
        }
    }

    /** Goes back by the step that was the last, if that is what {@code taken} says. */
    void resume(long taken, long steps) {
        for (int i = 0; taken == steps - 1 && i < sat.length; i++) {
            missed[i] -= sat[i] ? 1 : 0;
            sat[i] = false;
        }
    }

    /** Goes on from counts, of which there may be none. */
    void resume(long[] counts) {
        Arrays.fill(sat, false);
        for (int i = 0; i < missed.length; i++) {
            missed[i] = i < counts.length ? counts[i] : 0;
        }
    }

    private boolean moves(int parameter, Tensor[] gradients) {
        return gradients[parameter] != null && parameters.get(parameter).requiresGradient();
    }

    /** Brings what is kept of a parameter to its type and device, if those were changed. */
    private void follow(int parameter) {
        Tensor now = parameters.get(parameter).value();
        for (int k = 0; k < kept.size(); k++) {
            Parameter slot = kept.get(k)[parameter];
            slot.to(now.device());
            slot.to(now.dtype());
        }
    }

    Map<String, Parameter> state() {
        for (int i = 0; i < decays.length; i++) {
            follow(i);
        }
        return new LinkedHashMap<>(state);
    }

    // ---- gradients that are not finite ----

    private void requireFinite(Optimizer of, Tensor[] gradients) {
        int at = of.notFinite(gradients);
        if (at >= 0) {
            throw refusal(List.of(gradients[at].spec()), "the gradient of " + paths.get(at)
                    + " has an element that is infinite or NaN");
        }
    }

    static TensorException refusal(List<Spec> gradient, String relation) {
        return new TensorException(TensorException.Problem.ANOMALY, "optimizer step", gradient, relation,
                "lower the rate, clip gradients, or find the first operation that is not finite with "
                + "Tape.detectAnomalies; weights and the optimiser's state are as before the step");
    }

    /** Returns a guard that is finite if {@code guard} is and each gradient's sum; the host does not wait for it. */
    private Tensor judge(Tensor[][] operands, Tensor guard, Tensor[] gradients) {
        Tensor[] sums = new Tensor[operands.length];
        for (int n = 0; n < sums.length; n++) {
            Tensor gradient = operands[n][1];
            sums[n] = (gradient.dtype().bytes() < Float.BYTES ? gradient.to(DType.F32) : gradient).sum()
                    .to(DType.F32).mul(0);
        }
        Tensor sound = Shaping.stack(0, sums).sum();
        if (verdict == null || verdict.value().device() != sound.device()) {
            if (verdict != null) {
                verdict.close();
            }
            verdict = Parameter.buffer(sound);
        } else {
            verdict.set(sound);
        }
        judged = gradients;
        return guard == null ? sound : sound.add(guard.to(DType.F32));
    }

    /** Tells whether the last step found on the device that gradients are not finite; waits for the device. */
    boolean refused() {
        return judged != null && !Double.isFinite(verdict.value().item());
    }

    /** Throws if {@link #refused}. */
    void requireFinite(Optimizer of) {
        if (refused()) {
            requireFinite(of, judged);
            throw refusal(List.of(), "the sum of a gradient's elements is infinite or NaN");
        }
    }

    private void check(Tensor[] gradients) {
        if (gradients == null || gradients.length != parameters.size()) {
            throw TensorException.argument("optimizer", "needs " + parameters.size() + " gradients, got "
                    + (gradients == null ? "none" : gradients.length),
                    "give one for each of parameters(), null where there is none");
        }
        for (int i = 0; i < gradients.length; i++) {
            Tensor g = gradients[i];
            if (g != null && !g.shape().equals(parameters.get(i).shape())) {
                throw new TensorException(TensorException.Problem.SHAPE, "optimizer step",
                        List.of(parameters.get(i).value().spec(), g.spec()),
                        "the gradient of " + paths.get(i) + " must have its shape", "give gradients in order");
            }
        }
    }

    @Override
    public void close() {
        state.values().forEach(Parameter::close);
        if (verdict != null) {
            verdict.close();
        }
    }
}
