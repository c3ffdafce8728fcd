package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Creation;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** The parameters of an optimiser, and what it keeps for each: zeros of the same shape at first. */
final class Slots implements AutoCloseable {
    final List<Parameter> parameters;
    /** By parameter, whether weight decay applies to it. */
    final boolean[] decays;
    private final List<String> paths;
    private final Map<String, Parameter> state = new LinkedHashMap<>();
    private final List<Parameter[]> kept = new ArrayList<>();

    /** Returns a weight decay that makes sense. */
    static double decay(String optimizer, double value) {
        if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument(optimizer, "weight decay must be >= 0 and finite, got " + value,
                    "change it");
        }
        return value;
    }

    Slots(Layer model, Predicate<String> exempt) {
        List<Parameter> trained = new ArrayList<>();
        List<String> names = new ArrayList<>();
        model.parameters().forEach((path, parameter) -> {
            if (parameter.requiresGradient()) {
                trained.add(parameter);
                names.add(path);
            }
        });
        if (trained.isEmpty()) {
            throw TensorException.argument("optimizer", "the model has no parameter that requires a gradient",
                    "unfreeze some, or override Layer.visit to show them");
        }
        parameters = List.copyOf(trained);
        paths = names;
        decays = new boolean[names.size()];
        for (int i = 0; i < decays.length; i++) {
            decays[i] = !exempt.test(names.get(i));
        }
    }

    /** Adds a state tensor called {@code name} for each parameter and returns them. */
    Parameter[] add(String name) {
        Parameter[] added = new Parameter[parameters.size()];
        try (Scope scope = Scope.open("optimizer")) {
            for (int i = 0; i < added.length; i++) {
                added[i] = Parameter.buffer(Creation.full(parameters.get(i).value().spec(), 0));
                state.put(paths.get(i) + "." + name, added[i]);
            }
        }
        kept.add(added);
        return added;
    }

    /**
     * Carries out an operation on each parameter that has a gradient, with what was {@link #add}ed for it.
     *
     * @param plain for those that are exempt from weight decay
     */
    void step(Update plain, Update decaying, Tensor guard, Tensor[] gradients) {
        check(gradients);
        int count = 0;
        for (Tensor g : gradients) {
            count += g == null ? 0 : 1;
        }
        Update[] ops = new Update[count];
        // A recorder may keep them.
        Tensor[][] operands = new Tensor[count][2 + kept.size()];
        for (int i = 0, n = 0; i < gradients.length; i++) {
            if (gradients[i] != null) {
                Tensor parameter = parameters.get(i).value();
                ops[n] = decays[i] ? decaying : plain;
                Tensor[] of = operands[n++];
                of[0] = parameter;
                of[1] = gradients[i].to(parameter.device());
                for (int k = 0; k < kept.size(); k++) {
                    of[2 + k] = kept.get(k)[i].value();
                }
            }
        }
        Tensor.applyAll(ops, operands, guard);
    }

    Map<String, Parameter> state() {
        return new LinkedHashMap<>(state);
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
    }
}
