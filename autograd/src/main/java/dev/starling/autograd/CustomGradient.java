package dev.starling.autograd;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Backward;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Gives a function of tensors a gradient of its own in place of that of its operations: because the latter is 0 almost
 * everywhere, overflows, or needs more memory or time. This layer rounds and passes gradients on unchanged
 * (the straight-through estimator; Bengio et al., 2013):
 *
 * <pre>{@code
 * Layer rounded = x -> CustomGradient.apply(in -> in[0].round(), (in, result, gradient) -> new Tensor[] {gradient}, x);
 * }</pre>
 */
public final class CustomGradient {
    private static final String NAME = "custom gradient";

    private CustomGradient() {
    }

    /** Computes gradients of a function. */
    @FunctionalInterface
    public interface Pullback {
        /**
         * Returns the vector-Jacobian product for each input. Gradients can be differentiated again if this method
         * computes them by operations on its arguments.
         *
         * @param inputs the function's inputs. What else is needed is computed again, because intermediate results of
         *     the function are not kept
         * @param result the function's result
         * @param gradient the gradient of the result, of the same shape
         * @return one gradient for each input, of the shape of the input; {@code null} for an input without gradient
         */
        @Nullable Tensor[] gradients(Tensor[] inputs, Tensor result, Tensor gradient);
    }

    /**
     * Computes {@code function} of {@code inputs}. Tapes that record record one step with the given gradient and none
     * of the function's operations.
     *
     * @param function may only use its argument and constants: tensors that it uses otherwise have no gradient
     * @throws TensorException in the backward pass if the number or the shape of gradients does not fit the inputs
     */
    public static Tensor apply(Function<Tensor[], Tensor> function, Pullback pullback, Tensor... inputs) {
        List<Tape> tapes = CustomVjp.tapes();
        if (tapes.isEmpty()) {
            return function.apply(inputs.clone());
        }
        Tensor[] in = inputs.clone();
        Tensor computed = Recorder.with(Recorder.NONE, () -> Scope.run(() -> {
            Tensor y = function.apply(in.clone());
            // A step's result must be another tensor than its inputs and than those that tapes know: the function may
            // be the identity, or return the same constant in each call.
            return Arrays.asList(in).contains(y) || tapes.stream().anyMatch(tape -> tape.depends(y)) ? y.copy() : y;
        }));
        Step step = new Step(pullback);
        tapes.forEach(tape -> tape.recordCustom(step, in, new Tensor[] {computed}));
        return computed;
    }

    private record Step(Pullback pullback) implements CustomVjp {
        @Override
        public Tensor[] vjp(Backward b) {
            Tensor[] in = b.inputs();
            Tensor[] gradients = pullback.gradients(in.clone(), b.out(0), b.grad());
            if (gradients == null || gradients.length != in.length) {
                throw TensorException.argument(NAME, "there must be one gradient for each of " + in.length
                        + " inputs, got " + (gradients == null ? "none" : gradients.length),
                        "return null in the place of an input without gradient");
            }
            for (int i = 0; i < in.length; i++) {
                if (gradients[i] != null && !gradients[i].shape().equals(in[i].shape())) {
                    throw new TensorException(TensorException.Problem.SHAPE, NAME, List.of(in[i].spec(),
                            gradients[i].spec()), "the gradient of input " + i + " must have the input's shape",
                            "sum it over dimensions that were broadcast: sumTo(input.shape())");
                }
            }
            return gradients;
        }

        @Override
        public String name() {
            return NAME;
        }
    }
}
