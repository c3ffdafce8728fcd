package dev.starling.autograd;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.TensorException.Problem;
import dev.starling.tensor.op.Backward;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Op;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * Reverse-mode differentiation: notes the operations that depend on watched tensors and walks them backwards.
 *
 * <pre>{@code
 * Tape tape = new Tape().watch(w);
 * Tensor loss = tape.record(() -> x.matmul(w).square().mean());
 * Tensor dw = tape.backward(loss).of(w);
 * }</pre>
 *
 * <p>Confined to one thread; {@link #reset} makes it ready for the next step without allocating anew. Where
 * {@code backward} runs while a tape records (this one or another), the gradients can be differentiated again.
 */
public final class Tape implements Recorder {
    private static final boolean[] NONE_NEEDED = {};

    private final VariableMap variables = new VariableMap();
    private Object[] steps = new Object[64];
    private Tensor[][] inputs = new Tensor[64][];
    private Tensor[][] outputs = new Tensor[64][];
    private int[] versions = new int[256];
    private int[] versionStart = new int[65];
    private int count;
    private Tensor[] watched = new Tensor[16];
    private int watchedCount;
    private int variableCount;
    private Recorder outer = Recorder.NONE;
    private boolean anomalies;
    private Map<Long, UnaryOperator<Tensor>> hooks;
    // Scratch of the backward pass, by variable.
    private Tensor[] gradients = new Tensor[64];
    private int[] firstUse = new int[64];
    private int[] makers = new int[64];
    private int[] uses = new int[64];
    /** Whether a variable's gradient is the one before the epilogue by which it was made. */
    private boolean[] beforeEpilogue = new boolean[64];

    /** Makes a tape that watches nothing yet. */
    public Tape() {
    }

    /** Watches tensors: gradients are wanted for them. To be called before they are used. */
    public Tape watch(Tensor... tensors) {
        for (Tensor t : tensors) {
            watch(t);
        }
        return this;
    }

    /** Watches tensors: gradients are wanted for them. To be called before they are used. */
    public Tape watch(Iterable<Tensor> tensors) {
        for (Tensor t : tensors) {
            watch(t);
        }
        return this;
    }

    private void watch(Tensor t) {
        if (!t.dtype().isFloating()) {
            throw new TensorException(Problem.DTYPE, "watch", List.of(t.spec()), "only floating tensors have gradients",
                    "cast with to(DType.F32)");
        }
        if (count > 0) {
            throw new TensorException(Problem.ARGUMENT, "watch", List.of(t.spec()),
                    "tensors are watched before anything is recorded", "watch it on a fresh or reset tape");
        }
        if (variables.get(t.id()) < 0) {
            if (watchedCount == watched.length) {
                watched = Arrays.copyOf(watched, watchedCount * 2);
            }
            watched[watchedCount++] = t;
            variables.put(t.id(), variableCount++);
        }
    }

    /** Forgets everything recorded, watched and hooked. */
    public Tape reset() {
        Arrays.fill(steps, 0, count, null);
        Arrays.fill(inputs, 0, count, null);
        Arrays.fill(outputs, 0, count, null);
        Arrays.fill(watched, 0, watchedCount, null);
        variables.clear();
        count = 0;
        watchedCount = 0;
        variableCount = 0;
        hooks = null;
        return this;
    }

    /** Looks for NaN in every recorded result and gradient from now on, and throws naming the operation: slow. */
    public Tape detectAnomalies() {
        anomalies = true;
        return this;
    }

    /** Calls {@code hook} with the gradient of {@code tensor} once it is final; what it returns takes its place. */
    public Tape hook(Tensor tensor, UnaryOperator<Tensor> hook) {
        if (hooks == null) {
            hooks = new HashMap<>();
        }
        hooks.merge(tensor.id(), hook, (first, second) -> g -> second.apply(first.apply(g)));
        return this;
    }

    /** Returns how many operations were recorded. */
    public int size() {
        return count;
    }

    /** Runs {@code body} and records what it does with watched tensors, in addition to what is recorded already. */
    public <T> T record(Supplier<T> body) {
        Recorder before = outer;
        outer = Recorder.current() == this ? before : Recorder.current();
        try {
            return Recorder.with(this, body);
        } finally {
            outer = before;
        }
    }

    /** Runs {@code body} without recording. */
    public static <T> T noGrad(Supplier<T> body) {
        return Recorder.with(Recorder.NONE, body);
    }

    @Override
    public void record(Op op, Tensor[] in, Tensor[] out) {
        if (op.differentiable()) {
            note(op, in, out);
        }
        if (outer != Recorder.NONE) {
            outer.record(op, in, out);
        }
    }

    private void note(Op op, Tensor[] in, Tensor[] out) {
        boolean depends = false;
        for (Tensor t : in) {
            depends |= variables.get(t.id()) >= 0;
        }
        if (depends) {
            append(op, in, out);
        }
        if (anomalies) {
            for (Tensor t : out) {
                Anomaly.check(op.name(), "result", in, t);
            }
        }
    }

    /** Notes a step with its own gradient; see {@link Recompute}. */
    void recordCustom(CustomVjp vjp, Tensor[] in, Tensor[] out) {
        append(vjp, in, out);
    }

    private void append(Object step, Tensor[] in, Tensor[] out) {
        if (count == steps.length) {
            int n = count * 2;
            steps = Arrays.copyOf(steps, n);
            inputs = Arrays.copyOf(inputs, n);
            outputs = Arrays.copyOf(outputs, n);
            versionStart = Arrays.copyOf(versionStart, n + 1);
        }
        int v = versionStart[count];
        if (v + in.length > versions.length) {
            versions = Arrays.copyOf(versions, Math.max(versions.length * 2, v + in.length));
        }
        for (Tensor t : in) {
            versions[v++] = t.version();
        }
        steps[count] = step;
        inputs[count] = in;
        outputs[count] = out;
        versionStart[++count] = v;
        for (Tensor t : out) {
            if (t.dtype().isFloating()) {
                variables.put(t.id(), variableCount++);
            }
        }
    }

    /** Returns the watched tensors. */
    List<Tensor> watched() {
        return Arrays.asList(watched).subList(0, watchedCount);
    }

    boolean depends(Tensor t) {
        return variables.get(t.id()) >= 0;
    }

    // ---- backward ----

    /**
     * Returns the gradients of {@code result}, which must have one element.
     *
     * @throws TensorException if it has more, does not depend on anything watched, or a recorded operand was changed
     */
    public Gradients backward(Tensor result) {
        return backward(result, seed(result));
    }

    /** Returns the vector-Jacobian product: the gradients of {@code Σ result·cotangent}. */
    public Gradients backward(Tensor result, Tensor cotangent) {
        Tensor[] kept = new Tensor[watchedCount];
        walk(result, cotangent, (variable, gradient) -> kept[variable] = gradient.unhold());
        return new Gradients(variables, kept);
    }

    /** Hands the gradients of {@code result}, which must have one element, to {@code sink} as they become final. */
    public void backward(Tensor result, GradientSink sink) {
        walk(result, seed(result), (variable, gradient) -> {
            boolean counted = gradient.holds() > 0;
            sink.accept(watched[variable], gradient);
            if (counted) {
                gradient.drop();
            }
        });
    }

    private static Tensor seed(Tensor result) {
        if (result.count() != 1) {
            throw new TensorException(Problem.SHAPE, "backward", List.of(result.spec()),
                    "the result must have one element", "reduce it with sum() or mean(), or give a cotangent");
        }
        return result.onesLike();
    }

    private interface Delivery {
        void deliver(int variable, Tensor gradient);
    }

    private void walk(Tensor result, Tensor cotangent, Delivery delivery) {
        int root = variables.get(result.id());
        if (root < 0) {
            throw new TensorException(Problem.ARGUMENT, "backward", List.of(result.spec()),
                    "the result does not depend on a watched tensor", "watch parameters before record()");
        }
        if (!result.shape().equals(cotangent.shape())) {
            throw new TensorException(Problem.SHAPE, "backward", List.of(result.spec(), cotangent.spec()),
                    "the cotangent must have the shape of the result", "reshape it");
        }
        int end = count;
        prepare(end, root);
        gradients[root] = cotangent;
        try {
            if (root < watchedCount) {
                finish(root, delivery);
            }
            for (int i = end - 1; i >= 0; i--) {
                step(i, delivery);
            }
        } finally {
            Arrays.fill(gradients, null);
        }
    }

    /**
     * Finds for each variable that the result depends on the first recorded step that used it: the last to contribute.
     */
    private void prepare(int end, int root) {
        if (gradients.length < variableCount) {
            gradients = new Tensor[variableCount * 2];
            firstUse = new int[variableCount * 2];
            makers = new int[variableCount * 2];
            uses = new int[variableCount * 2];
            beforeEpilogue = new boolean[variableCount * 2];
        }
        Arrays.fill(firstUse, -1);
        Arrays.fill(uses, 0);
        Arrays.fill(beforeEpilogue, false);
        firstUse[root] = Integer.MAX_VALUE;
        for (int i = end - 1; i >= 0; i--) {
            boolean reached = false;
            for (Tensor t : outputs[i]) {
                int v = variables.get(t.id());
                if (v >= 0) {
                    makers[v] = i;
                    reached |= firstUse[v] >= 0;
                }
            }
            if (reached) {
                for (Tensor t : inputs[i]) {
                    int v = variables.get(t.id());
                    if (v >= 0) {
                        firstUse[v] = i;
                        uses[v]++;
                    }
                }
            }
        }
    }

    private void step(int i, Delivery delivery) {
        Tensor[] out = outputs[i];
        Tensor[] incoming = new Tensor[out.length];
        boolean flows = false;
        for (int k = 0; k < out.length; k++) {
            int v = variables.get(out[k].id());
            if (v >= 0 && gradients[v] != null) {
                incoming[k] = hooked(out[k], gradients[v]);
                gradients[v] = null;
                flows = true;
            }
        }
        Tensor[] in = inputs[i];
        if (flows) {
            unchanged(i);
            if (Recorder.current() != Recorder.NONE) {
                accumulate(in, product(i, incoming), null);
            } else {
                try (Scope scope = Scope.open("backward")) {
                    accumulate(in, product(i, incoming), scope);
                }
                for (Tensor g : incoming) {
                    if (g != null) {
                        g.drop();
                    }
                }
            }
        }
        for (Tensor t : in) {
            int v = variables.get(t.id());
            if (v >= 0 && v < watchedCount && firstUse[v] == i && gradients[v] != null) {
                finish(v, delivery);
            }
        }
    }

    private void finish(int v, Delivery delivery) {
        Tensor g = hooked(watched[v], gradients[v]);
        gradients[v] = null;
        delivery.deliver(v, g);
    }

    private Tensor[] product(int i, Tensor[] incoming) {
        Tensor[] in = inputs[i];
        boolean[] needs = in.length == 0 ? NONE_NEEDED : new boolean[in.length];
        for (int k = 0; k < in.length; k++) {
            needs[k] = variables.get(in[k].id()) >= 0;
        }
        Epilogue.Applied through = steps[i] instanceof Contraction.Linear ? through(in[0]) : null;
        if (through != null) {
            beforeEpilogue[variables.get(in[0].id())] = true;
        }
        int result = variables.get(outputs[i][0].id());
        Backward b = new Backward(in, outputs[i], incoming, needs, through, result >= 0 && beforeEpilogue[result]);
        Tensor[] products = steps[i] instanceof Op op ? op.vjp(b) : ((CustomVjp) steps[i]).vjp(b);
        if (anomalies) {
            for (Tensor g : products) {
                if (g != null) {
                    Anomaly.check(steps[i] instanceof Op op ? op.name() : "recompute", "gradient", in, g);
                }
            }
        }
        return products;
    }

    /**
     * Returns the epilogue by which the operand of a dense layer was made, if that layer can compute the gradient
     * before it: in its own kernel, where nobody else contributes to the operand's gradient or looks at it.
     */
    private Epilogue.Applied through(Tensor operand) {
        int v = variables.get(operand.id());
        boolean alone = v >= watchedCount && uses[v] == 1 && gradients[v] == null && !anomalies
                && Recorder.current() == Recorder.NONE && (hooks == null || !hooks.containsKey(operand.id()));
        return alone && steps[makers[v]] instanceof Contraction.Linear made ? made.applied(outputs[makers[v]]) : null;
    }

    private void accumulate(Tensor[] in, Tensor[] products, Scope scope) {
        for (int k = 0; k < in.length; k++) {
            Tensor g = products[k];
            int v = g == null ? -1 : variables.get(in[k].id());
            if (v < 0) {
                continue;
            }
            Shape shape = in[k].shape();
            Tensor sum = gradients[v];
            if (sum == null) {
                gradients[v] = adopt(g.expand(shape), scope);
            } else {
                gradients[v] = adopt(sum.add(g), scope);
                if (scope != null) {
                    sum.drop();
                }
            }
        }
    }

    /** Counts a gradient's slot as a holder of its memory, if that was made by this backward pass. */
    private static Tensor adopt(Tensor g, Scope scope) {
        if (scope != null && (scope.owns(g) || g.holds() > 0)) {
            scope.keep(g);
            g.hold();
        }
        return g;
    }

    private Tensor hooked(Tensor of, Tensor gradient) {
        UnaryOperator<Tensor> hook = hooks == null ? null : hooks.get(of.id());
        return hook == null ? gradient : hook.apply(gradient);
    }

    private void unchanged(int i) {
        int v = versionStart[i];
        for (Tensor t : inputs[i]) {
            if (t.version() != versions[v++]) {
                String op = steps[i] instanceof Op o ? o.name() : "recompute";
                throw new TensorException(Problem.VERSION, "backward of " + op, List.of(t.spec()),
                        "an operand was changed in place after it was recorded",
                        "update it after backward, or copy() it");
            }
        }
    }
}
