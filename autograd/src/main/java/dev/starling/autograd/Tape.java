package dev.starling.autograd;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.TensorException.Problem;
import dev.starling.tensor.op.Backward;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.View;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Reverse-mode differentiation: records the operations that depend on watched tensors and walks them backwards.
 *
 * <pre>{@code
 * Tape tape = new Tape().watch(w);
 * Tensor loss = tape.record(() -> x.matmul(w).square().mean());
 * Tensor dw = tape.backward(loss).of(w);
 * }</pre>
 *
 * <p>A tape is confined to one thread. {@link #reset} prepares it for the next step and keeps its arrays. If
 * {@code backward} runs while a tape records (this one or another), the gradients can be differentiated again. Hooks,
 * sinks and pullbacks must not call {@code backward} or {@code reset} of the tape that runs them.
 */
public final class Tape implements Recorder {
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
    private @Nullable Map<Long, UnaryOperator<Tensor>> hooks;
    // Scratch arrays of the backward pass, indexed by variable.
    private Tensor[] gradients = new Tensor[64];
    private int[] firstUse = new int[64];
    private int[] makers = new int[64];
    private int[] uses = new int[64];
    private int[] slicings = new int[64];
    private final Map<Integer, SliceGradients> slices = new HashMap<>();
    /** The gradient of the only result of an operation. */
    private final Tensor[] single = new Tensor[1];
    /** Whether the gradient of a variable is that before the epilogue of the operation that computed the variable. */
    private boolean[] beforeEpilogue = new boolean[64];
    /** Whether a backward pass is using the scratch arrays. */
    private boolean walking;

    /** Creates a tape that watches no tensors yet. */
    public Tape() {
    }

    /** Requests gradients for tensors. Call this before the tensors are used. */
    public Tape watch(Tensor... tensors) {
        return watch(Arrays.asList(tensors));
    }

    /** Requests gradients for tensors. Call this before the tensors are used. */
    public Tape watch(Iterable<Tensor> tensors) {
        tensors.forEach(this::watch);
        return this;
    }

    private void watch(Tensor t) {
        if (!t.dtype().isFloating()) {
            throw new TensorException(Problem.DTYPE, "watch", List.of(t.spec()), "only floating tensors have gradients",
                    "cast with to(DType.F32)");
        }
        if (count > 0) {
            throw new TensorException(Problem.ARGUMENT, "watch", List.of(t.spec()),
                    "tensors must be watched before anything is recorded", "call reset() first, or use a new tape");
        }
        if (variables.get(t.id()) < 0) {
            if (watchedCount == watched.length) {
                watched = Arrays.copyOf(watched, watchedCount * 2);
            }
            watched[watchedCount++] = t;
            variables.put(t.id(), variableCount++);
        }
    }

    /** Removes all recorded operations, watched tensors and hooks. */
    public Tape reset() {
        requireIdle("reset");
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

    /**
     * From now on checks every recorded result and gradient for NaN and throws an exception that names the operation.
     * Slow.
     */
    public Tape detectAnomalies() {
        anomalies = true;
        return this;
    }

    /**
     * Calls {@code hook} with the gradient of {@code tensor} once it is final. The result of the hook replaces the
     * gradient.
     */
    public Tape hook(Tensor tensor, UnaryOperator<Tensor> hook) {
        if (hooks == null) {
            hooks = new HashMap<>();
        }
        hooks.merge(tensor.id(), hook, (first, second) -> g -> second.apply(first.apply(g)));
        return this;
    }

    /** Returns the number of recorded operations. */
    public int size() {
        return count;
    }

    /**
     * Returns the recorded operation that computed the elements of a tensor, before any views and casts; empty if none
     * is recorded, or if the step computes its own gradient.
     */
    public Optional<Op> source(Tensor result) {
        Tensor sought = result;
        for (int i = count - 1; i >= 0; i--) {
            for (Tensor output : outputs[i]) {
                if (output == sought) {
                    if (!(steps[i] instanceof View || steps[i] instanceof Cast)) {
                        return steps[i] instanceof Op op ? Optional.of(op) : Optional.empty();
                    }
                    sought = inputs[i][0];
                }
            }
        }
        return Optional.empty();
    }

    /** Runs {@code body} and records its operations on watched tensors, after those that are already recorded. */
    public <T> T record(Supplier<T> body) {
        Recorder before = outer;
        Recorder now = Recorder.current();
        boolean records = CustomVjp.tapes().contains(this); // Perhaps below another tape, which goes on recording.
        outer = records ? before : now;
        try {
            return Recorder.with(records ? now : this, body);
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
            recordIfDependent(op, in, out);
        }
        if (outer != Recorder.NONE) {
            outer.record(op, in, out);
        }
    }

    private void recordIfDependent(Object step, Tensor[] in, Tensor[] out) {
        boolean depends = false;
        for (Tensor t : in) {
            depends |= variables.get(t.id()) >= 0;
        }
        if (depends) {
            append(step, in, out);
        }
        if (anomalies) {
            Anomaly.check(name(step), "result", in, out);
        }
    }

    private static String name(Object step) {
        return step instanceof Op op ? op.name() : ((CustomVjp) step).name();
    }

    /** Records a step that computes its own gradient, if it depends on a watched tensor. */
    void recordCustom(CustomVjp vjp, Tensor[] in, Tensor[] out) {
        recordIfDependent(vjp, in, out);
    }

    /** Returns the recorder that records what this tape records, while this tape records. */
    Recorder outer() {
        return outer;
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
        if (v + in.length + out.length > versions.length) {
            versions = Arrays.copyOf(versions, Math.max(versions.length * 2, v + in.length + out.length));
        }
        for (Tensor t : in) {
            versions[v++] = t.storage().version();
        }
        for (Tensor t : out) {
            versions[v++] = t.storage().version();
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

    boolean depends(Tensor t) {
        return variables.get(t.id()) >= 0;
    }

    // ---- backward ----

    /**
     * Returns the gradients of {@code result}, which must have one element.
     *
     * @throws TensorException if the result has more than one element or does not depend on a watched tensor, or if a
     *     recorded operand was changed in place
     */
    public Gradients backward(Tensor result) {
        return backward(result, seed(result));
    }

    /** Returns the vector-Jacobian product, that is the gradients of {@code Σ result·cotangent}. */
    public Gradients backward(Tensor result, Tensor cotangent) {
        Tensor[] results = new Tensor[watchedCount];
        walk(result, cotangent, (variable, gradient) -> {
            // The memory lives until its scope closes. That of the cotangent has other holders, and keeps this hold.
            if (!gradient.sharesMemoryWith(cotangent)) {
                gradient.storage().unhold();
            }
            results[variable] = gradient;
        });
        long[] ids = new long[watchedCount];
        Arrays.setAll(ids, i -> watched[i].id());
        return new Gradients(ids, results);
    }

    /** Passes the gradients of {@code result}, which must have one element, to {@code sink} as each becomes final. */
    public void backward(Tensor result, GradientSink sink) {
        Tensor seed = seed(result);
        // Gradients that are views of the seed then count as holders of its memory, like those that the pass allocates.
        seed.storage().hold();
        boolean drops = Recorder.current() == Recorder.NONE;
        walk(result, seed, (variable, gradient) -> {
            boolean held = drops && gradient.storage().holds() > 0;
            sink.accept(watched[variable], gradient);
            if (held) {
                gradient.storage().drop();
            }
        });
        seed.storage().drop();
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

    private void requireIdle(String method) {
        if (walking) {
            throw TensorException.argument(method, "must not be called on a tape by its own hooks, sinks and pullbacks",
                    "call it after the running backward() has returned, or use another tape");
        }
    }

    private void walk(Tensor result, Tensor cotangent, Delivery delivery) {
        requireIdle("backward");
        int root = variables.get(result.id());
        if (root < 0) {
            throw new TensorException(Problem.ARGUMENT, "backward", List.of(result.spec()),
                    "the result does not depend on a watched tensor", "call watch() before record()");
        }
        if (!result.shape().equals(cotangent.shape())) {
            throw new TensorException(Problem.SHAPE, "backward", List.of(result.spec(), cotangent.spec()),
                    "the cotangent must have the shape of the result", "reshape the cotangent");
        }
        int end = count;
        prepare(end, root);
        gradients[root] = cotangent;
        // Holders of the cotangent, such as a pass around this one, go on using it. A recorded pass keeps this hold.
        if (cotangent.storage().holds() > 0) {
            cotangent.storage().hold();
        }
        walking = true;
        try {
            if (root < watchedCount) {
                finish(root, delivery);
            }
            for (int i = end - 1; i >= 0; i--) {
                step(i, delivery);
            }
        } finally {
            walking = false;
            Arrays.fill(gradients, null);
            single[0] = null;
            slices.clear();
        }
    }

    /**
     * Finds, for each variable that the result depends on, the first recorded step that used it. In the backward pass
     * this step is the last one to contribute to the variable's gradient.
     */
    private void prepare(int end, int root) {
        if (gradients.length < variableCount) {
            gradients = new Tensor[variableCount * 2];
            firstUse = new int[variableCount * 2];
            makers = new int[variableCount * 2];
            uses = new int[variableCount * 2];
            slicings = new int[variableCount * 2];
            beforeEpilogue = new boolean[variableCount * 2];
        }
        Arrays.fill(firstUse, -1);
        Arrays.fill(uses, 0);
        Arrays.fill(slicings, 0);
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
                        slicings[v] += steps[i] instanceof View.Slice ? 1 : 0;
                    }
                }
            }
        }
    }

    private void step(int i, Delivery delivery) {
        Tensor[] out = outputs[i];
        Tensor[] incoming = out.length == 1 && steps[i] instanceof Op ? single : new Tensor[out.length];
        boolean flows = false;
        for (int k = 0; k < out.length; k++) {
            int v = variables.get(out[k].id());
            if (v >= 0 && gradients[v] != null) {
                incoming[k] = applyHook(out[k], gradients[v]);
                gradients[v] = null;
                flows = true;
            }
        }
        Tensor[] in = inputs[i];
        if (flows) {
            requireUnchanged(i);
            SliceGradients parts = partsWith(i);
            if (parts != null) {
                parts.add((View.Slice) steps[i], incoming[0]);
            } else {
                accumulate(in, () -> product(i, incoming), incoming);
            }
        }
        for (Tensor t : in) {
            int v = variables.get(t.id());
            SliceGradients parts = v >= 0 && firstUse[v] == i && slicings[v] > 0 ? slices.remove(v) : null;
            if (parts != null) {
                accumulate(in, () -> new Tensor[] {parts.sum(t.shape())}, parts.all());
            }
            if (v >= 0 && v < watchedCount && firstUse[v] == i && gradients[v] != null) {
                finish(v, delivery);
            }
        }
    }

    private void finish(int v, Delivery delivery) {
        Tensor g = applyHook(watched[v], gradients[v]);
        gradients[v] = null;
        delivery.deliver(v, g);
    }

    private Tensor[] product(int i, Tensor[] incoming) {
        Tensor[] in = inputs[i];
        Epilogue.Applied fused = steps[i] instanceof Contraction.Linear ? fusedProducer(in[0]) : null;
        if (fused != null) {
            beforeEpilogue[variables.get(in[0].id())] = true;
        }
        int result = variables.get(outputs[i][0].id());
        boolean[] needs = steps[i] instanceof Op ? Needs.shared(in, variables) : Needs.of(in, variables);
        Backward b = new Backward(in, outputs[i], incoming, needs, fused, result >= 0 && beforeEpilogue[result]);
        Tensor[] products = steps[i] instanceof Op op ? op.vjp(b) : ((CustomVjp) steps[i]).vjp(b);
        if (anomalies) {
            Anomaly.check(name(steps[i]), "gradient", in, products);
        }
        return products;
    }

    /**
     * Returns the epilogue of the dense layer whose first result is {@code operand} if the following dense layer can
     * compute the gradient before that epilogue in its own kernel. This requires that no other operation contributes to
     * the operand's gradient and that no hook, check or recorder reads it.
     */
    private Epilogue.@Nullable Applied fusedProducer(Tensor operand) {
        int v = variables.get(operand.id());
        boolean exclusive = v >= watchedCount && uses[v] == 1 && gradients[v] == null && !anomalies
                && Recorder.current() == Recorder.NONE && (hooks == null || !hooks.containsKey(operand.id()));
        return exclusive && steps[makers[v]] instanceof Contraction.Linear producer && operand == outputs[makers[v]][0]
                ? producer.applied(outputs[makers[v]]) : null;
    }

    /** Returns where to collect the gradient of a slice if all other uses of its operand are slices, too. */
    private @Nullable SliceGradients partsWith(int i) {
        int v = steps[i] instanceof View.Slice ? variables.get(inputs[i][0].id()) : -1;
        return v < 0 || uses[v] < 2 || slicings[v] < uses[v] ? null
                : slices.computeIfAbsent(v, key -> new SliceGradients());
    }

    /** Adds products to the gradients of operands. Frees what else is allocated, and the gradients that are spent. */
    private void accumulate(Tensor[] in, Supplier<Tensor[]> products, Tensor[] spent) {
        if (Recorder.current() != Recorder.NONE) {
            accumulate(in, products.get(), (Scope) null);
            return;
        }
        try (Scope scope = Scope.open("backward")) {
            accumulate(in, products.get(), scope);
        }
        for (Tensor g : spent) {
            if (g != null) {
                g.storage().drop();
            }
        }
    }

    private void accumulate(Tensor[] in, Tensor[] products, @Nullable Scope scope) {
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
                    sum.storage().drop();
                }
            }
        }
    }

    /** Lets the gradient's slot hold the tensor's memory if this backward pass allocated it. */
    private static Tensor adopt(Tensor g, @Nullable Scope scope) {
        if (scope != null && (scope.owns(g) || g.storage().holds() > 0)) {
            scope.keep(g);
            g.storage().hold();
        }
        return g;
    }

    private Tensor applyHook(Tensor of, Tensor gradient) {
        UnaryOperator<Tensor> hook = hooks == null ? null : hooks.get(of.id());
        return hook == null ? gradient : hook.apply(gradient);
    }

    private void requireUnchanged(int i) {
        int operands = inputs[i].length;
        for (int k = 0; k < operands + outputs[i].length; k++) {
            Tensor t = k < operands ? inputs[i][k] : outputs[i][k - operands];
            if (t.storage().version() != versions[versionStart[i] + k]) {
                throw new TensorException(Problem.VERSION, "backward of " + name(steps[i]), List.of(t.spec()),
                        "this " + (k < operands ? "operand" : "result")
                        + " was changed in place after the tape recorded the operation",
                        "change it after backward(), or record with a copy()");
            }
        }
    }
}
