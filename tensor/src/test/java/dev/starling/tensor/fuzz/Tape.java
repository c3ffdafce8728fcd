package dev.starling.tensor.fuzz;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Backward;
import dev.starling.tensor.op.Op;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/** Records operations and computes gradients backwards over them. */
final class Tape implements Recorder {
    private record Step(Op op, Tensor[] in, Tensor[] out) { }

    private final List<Step> steps = new ArrayList<>();

    @Override
    public void record(Op op, Tensor[] inputs, Tensor[] outputs) {
        steps.add(new Step(op, inputs, outputs));
    }

    /** Returns the gradients of {@code of}, given those of {@code results}; {@code null} for tensors without one. */
    Tensor[] gradients(Tensor[] results, Tensor[] incoming, Tensor... of) {
        Map<Tensor, Tensor> gradients = new IdentityHashMap<>();
        Map<Tensor, Boolean> reached = new IdentityHashMap<>();
        for (Tensor t : of) {
            if (t.dtype().isFloating()) {
                reached.put(t, true);
            }
        }
        for (int i = 0; i < results.length; i++) {
            if (incoming[i] != null) {
                gradients.merge(results[i], incoming[i], Tensor::add);
            }
        }
        List<Step> walked = List.copyOf(steps);
        for (Step s : walked) {
            boolean any = false;
            for (Tensor t : s.in) {
                any |= reached.containsKey(t);
            }
            for (Tensor t : s.out) {
                if (any && s.op.differentiable() && t.dtype().isFloating()) {
                    reached.put(t, true);
                }
            }
        }
        for (Step s : walked.reversed()) {
            back(s, gradients, reached);
        }
        Tensor[] result = new Tensor[of.length];
        for (int i = 0; i < of.length; i++) {
            result[i] = of[i].dtype().isFloating() ? gradients.get(of[i]) : null;
        }
        return result;
    }

    private static void back(Step s, Map<Tensor, Tensor> gradients, Map<Tensor, Boolean> reached) {
        Tensor[] out = new Tensor[s.out.length];
        boolean flows = false;
        for (int i = 0; i < out.length; i++) {
            out[i] = gradients.get(s.out[i]);
            flows |= out[i] != null && reached.containsKey(s.out[i]);
        }
        if (!flows || !s.op.differentiable()) {
            return;
        }
        boolean[] needs = new boolean[s.in.length];
        for (int i = 0; i < needs.length; i++) {
            needs[i] = reached.containsKey(s.in[i]) && s.in[i].dtype().isFloating();
        }
        Tensor[] in = s.op.vjp(new Backward(s.in, s.out, out, needs));
        for (int i = 0; i < needs.length; i++) {
            if (needs[i] && in[i] != null) {
                if (!in[i].shape().equals(s.in[i].shape()) || in[i].dtype() != s.in[i].dtype()) {
                    throw new AssertionError("the gradient of operand " + i + " of " + s.op + " is " + in[i].spec()
                            + " for " + s.in[i].spec());
                }
                gradients.merge(s.in[i], in[i], Tensor::add);
            }
        }
    }
}
