package dev.starling.autograd;

import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Backward;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Gradient checkpointing: stores only the result of a stage and recomputes its intermediate results in the backward
 * pass. This trades time for memory. (Chen et al., Training deep nets with sublinear memory cost, 2016)
 */
public final class Recompute {
    private Recompute() {
    }

    /**
     * Computes {@code stage(input)} without storing intermediate results. The stage runs again in the backward pass and
     * must compute the same values again: it may draw random numbers only from {@code generator}, and must have no side
     * effects that accumulate. If it depends on what is bound to the thread, such as whether layers are in training
     * mode, the backward pass must run under the same binding.
     *
     * @param stage may use any watched tensors
     * @param generator what the stage draws random numbers from, reset to its state at this call for the second run;
     *     may be {@code null}
     */
    public static Tensor checkpoint(Function<Tensor, Tensor> stage, Tensor input, @Nullable Generator generator) {
        List<Tape> tapes = CustomVjp.tapes();
        if (tapes.isEmpty()) {
            return stage.apply(input);
        }
        List<Tensor> used = new ArrayList<>(List.of(input));
        Recorder finder = (op, in, out) -> {
            for (Tensor t : in) {
                if (t != input && tapes.stream().anyMatch(tape -> tape.depends(t)) && !used.contains(t)) {
                    used.add(t);
                }
            }
        };
        Generator.State before = generator == null ? null : generator.state();
        Tensor output = Recorder.with(finder, () -> Scope.run(() -> {
            Tensor y = stage.apply(input);
            // A step's result must be another tensor than those that tapes know, for example the input.
            return y == input || tapes.stream().anyMatch(tape -> tape.depends(y)) ? y.copy() : y;
        }));
        CustomVjp again = b -> {
            if (generator == null || before == null) {
                return rerun(stage, b);
            }
            Generator.State after = generator.state();
            generator.restore(before);
            try {
                return rerun(stage, b);
            } finally {
                generator.restore(after);
            }
        };
        tapes.forEach(tape -> tape.recordCustom(again, used.toArray(Tensor[]::new), new Tensor[] {output}));
        return output;
    }

    private static Tensor[] rerun(Function<Tensor, Tensor> stage, Backward b) {
        Tape inner = new Tape();
        for (int i = 0; i < b.inputs().length; i++) {
            if (b.needs(i)) {
                inner.watch(b.in(i));
            }
        }
        Tensor output = inner.record(() -> stage.apply(b.in(0)));
        Tensor[] result = new Tensor[b.inputs().length];
        if (!inner.depends(output)) {
            return result;
        }
        Gradients gradients = inner.backward(output, b.grad());
        for (int i = 0; i < result.length; i++) {
            result[i] = gradients.get(b.in(i));
        }
        return result;
    }
}
