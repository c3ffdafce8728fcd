package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The optimiser of a {@link Rule}. Each parameter has the state that the rule names, of the same shape. Frozen
 * parameters are included so that they can be unfrozen; their state does not change while they are frozen.
 */
final class RuleOptimizer implements Optimizer {
    private final List<Parameter> parameters;
    private final List<String> paths;
    /** By parameter: one rule, with the parameter's weight decay. */
    private final Rule[] rules;
    /** By parameter. */
    private final Schedule[] schedules;
    private final Schedule schedule;
    private long steps;
    /** By parameter, the number of steps that left it unchanged. */
    private final long[] missed;
    /** By parameter, whether the last step left it unchanged. */
    private final boolean[] idle;
    private final Map<String, Parameter> state = new LinkedHashMap<>();
    private final List<Parameter[]> stateTensors = new ArrayList<>();
    /** The updates of a step and their operands, in arrays that the next step uses again. */
    private Update[] ops = new Update[0];
    private Tensor[][] operands = new Tensor[0][];
    /**
     * On a device whose memory the host cannot access: finite if the last step's gradients were. Otherwise
     * {@code null}.
     */
    private @Nullable Parameter check;
    /** The gradients of the last step if {@link #check} refers to them, otherwise {@code null}. */
    private Tensor @Nullable [] checked;

    RuleOptimizer(OptimizerBuilder<?> builder) {
        List<Parameter> trained = new ArrayList<>();
        List<String> names = new ArrayList<>();
        Map<String, Parameter> all = builder.model.parameters();
        all.forEach((path, parameter) -> {
            if (builder.selected.test(path)) {
                trained.add(parameter);
                names.add(path);
            }
        });
        if (trained.isEmpty()) {
            throw TensorException.argument("optimizer", all.isEmpty() ? "the model has no parameters"
                    : "only(..) selects none of the model's parameters",
                    "override visit to pass parameters to the visitor, or select some of their paths");
        }
        parameters = List.copyOf(trained);
        paths = names;
        missed = new long[names.size()];
        idle = new boolean[names.size()];
        schedule = builder.schedule;
        Rule decaying = builder.rule(builder.weightDecay);
        Map<Double, Rule> byDecay = new HashMap<>(Map.of(builder.weightDecay, decaying));
        rules = names.stream().map(path -> byDecay.computeIfAbsent(builder.decayOf(path), builder::rule))
                .toArray(Rule[]::new);
        schedules = names.stream().map(builder::scheduleOf).toArray(Schedule[]::new);
        decaying.slots().forEach(slot -> addState(slot, decaying.initial()));
    }

    private void addState(String name, double initial) {
        Parameter[] added = new Parameter[parameters.size()];
        for (int i = 0; i < added.length; i++) {
            added[i] = Parameter.filledLike(parameters.get(i), initial);
            state.put(paths.get(i) + "." + name, added[i]);
        }
        stateTensors.add(added);
    }

    /** Returns for example {@code Sgd[momentum=0.9, ..], rate constant 0.1, 4 parameters with 101,770 weights}. */
    @Override
    public String toString() {
        return describe(rules[0]);
    }

    /** Describes an optimiser with these parameters and rates and the given rule. */
    String describe(Object rule) {
        long weights = parameters.stream().mapToLong(p -> p.shape().count()).sum();
        return rule + ", rate " + schedule + String.format(Locale.ROOT, ", %d parameters with %,d weights",
                parameters.size(), weights) + (steps > 0 ? ", after " + steps + " steps" : "");
    }

    @Override
    public List<Parameter> parameters() {
        return parameters;
    }

    @Override
    public String path(int parameter) {
        return paths.get(parameter);
    }

    @Override
    public long steps() {
        return steps;
    }

    @Override
    public double rate() {
        return schedule.rate(steps);
    }

    @Override
    public double rate(int parameter) {
        return schedules[parameter].rate(steps);
    }

    @Override
    public Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("learning rate", describe(schedules, each -> Double.toString(each.rate(0))));
        settings.put(Optimizer.SCHEDULE, describe(schedules, Rates::describe));
        settings.put("optimiser", describe(rules, Rule::toString));
        settings.put("selection of parameters", String.join(", ", paths));
        return settings;
    }

    /** Returns a setting that each parameter has: its text and, if they differ, the parameters of each text. */
    <T> String describe(T[] values, Function<T, String> text) {
        Map<T, List<String>> byValue = new LinkedHashMap<>();
        for (int i = 0; i < values.length; i++) {
            byValue.computeIfAbsent(values[i], _ -> new ArrayList<>()).add(paths.get(i));
        }
        return byValue.entrySet().stream().map(each -> text.apply(each.getKey())
                + (byValue.size() > 1 ? " of " + String.join(", ", each.getValue()) : ""))
                .collect(Collectors.joining("; "));
    }

    @Override
    public Rule rule(int parameter) {
        return rules[parameter];
    }

    @Override
    public List<Parameter> stateOf(int parameter) {
        return stateTensors.stream().map(tensors -> tensors[parameter]).toList();
    }

    // ---- a step ----

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        requireMatching(gradients);
        int count = 0;
        for (int i = 0; i < gradients.length; i++) {
            count += changes(i, gradients) ? 1 : 0;
        }
        checked = null;
        if (count > 0) {
            update(guard, gradients, count);
        }
        for (int i = 0; i < gradients.length; i++) {
            idle[i] = !changes(i, gradients);
            missed[i] += idle[i] ? 1 : 0;
        }
        steps++;
    }

    private void update(@Nullable Tensor guard, Tensor[] gradients, int count) {
        if (ops.length != count) {
            ops = new Update[count];
            operands = new Tensor[count][2 + stateTensors.size()];
        }
        try {
            fill(gradients);
            if (operands[0][0].device().backend().hostVisible()) {
                requireFinite(gradients);
                Tensor.applyAll(ops, operands, guard);
            } else {
                try (Scope scope = Scope.open("guard")) {
                    Tensor.applyAll(ops, operands, combineGuard(operands, guard, gradients));
                }
            }
        } finally {
            // The gradients of a step without a scope live as long as they are reachable.
            for (Tensor[] each : operands) {
                Arrays.fill(each, null);
            }
        }
    }

    private void fill(Tensor[] gradients) {
        for (int i = 0, n = 0; i < gradients.length; i++) {
            if (changes(i, gradients)) {
                convertState(i);
                Tensor parameter = parameters.get(i).value();
                ops[n] = step(i, n == 0 ? null : ops[n - 1]);
                Tensor[] each = operands[n++];
                each[0] = parameter;
                each[1] = gradients[i].to(parameter.device());
                for (int k = 0; k < stateTensors.size(); k++) {
                    each[2 + k] = stateTensors.get(k)[i].value();
                }
            }
        }
    }

    /** Returns the step of a parameter: {@code last}, that of the parameter before it, if it does the same. */
    private Update step(int parameter, @Nullable Update last) {
        Rule rule = rules[parameter];
        double rate = rate(parameter);
        long number = rule.countsSteps() ? steps + 1 - missed[parameter] : 1;
        return last instanceof Update.Step before && before.rule() == rule && before.rate() == rate
                && before.step() == number ? before : rule.step(rate, number);
    }

    // ---- checkpoints ----

    /** Undoes the counts of missed steps of the last step if {@code completed} is the number of steps before it. */
    @Override
    public void resume(long completed) {
        for (int i = 0; completed == steps - 1 && i < idle.length; i++) {
            missed[i] -= idle[i] ? 1 : 0;
            idle[i] = false;
        }
        steps = completed;
    }

    /** Sets the counts of missed steps from a checkpoint, which may contain none. */
    @Override
    public void resume(long completed, long[] counts) {
        Arrays.fill(idle, false);
        for (int i = 0; i < missed.length; i++) {
            missed[i] = i < counts.length ? counts[i] : 0;
        }
        steps = completed;
    }

    @Override
    public long[] missed() {
        return rules[0].countsSteps() ? missed.clone() : new long[0];
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

    @Override
    public Map<String, Parameter> state() {
        for (int i = 0; i < rules.length; i++) {
            convertState(i);
        }
        return new LinkedHashMap<>(state);
    }

    // ---- gradients that are not finite ----

    private void requireFinite(Tensor[] gradients) {
        int at = notFinite(gradients);
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
    private Tensor combineGuard(Tensor[][] operands, @Nullable Tensor guard, Tensor[] gradients) {
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

    /**
     * Returns a number on the device that is finite if the gradients of the last step were, or {@code null} if the host
     * has checked them or there were none.
     */
    @Nullable Tensor found() {
        return checked == null || check == null ? null : check.value();
    }

    /** Returns a number of the type and on the device of {@code a} that is finite only if both are. */
    static Tensor both(Tensor a, @Nullable Tensor b) {
        return b == null ? a : a.mul(0).add(b.mul(0).to(a.device()).to(a.dtype()));
    }

    @Override
    public boolean skipped() {
        return checked != null && check != null && !Double.isFinite(check.value().item());
    }

    @Override
    public void requireFinite() {
        if (checked != null && skipped()) {
            requireFinite(checked);
            throw notFinite(List.of(), "the sum of a gradient's elements is infinite or NaN");
        }
    }

    void requireMatching(Tensor[] gradients) {
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
