package dev.starling.nn.optim;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Map;

/**
 * The rule of an optimiser that needs a parameter's gradient as a whole: a norm, or a product of matrices. It is
 * written in tensor operations and runs on all devices, and on parameter servers, which hold such a parameter unsplit.
 * (A {@link dev.starling.tensor.op.Rule} computes each element by itself.) The names of the records and of their
 * components are part of the formats of files and messages, as those of rules are.
 */
public sealed interface TensorRule permits Moments, Adafactor.Factored, Muon.Orthogonal {
    /**
     * Returns the shapes of the state's tensors by name, for a parameter of the given shape. All begin with 0, and none
     * has more elements than a parameter that has any.
     *
     * @throws dev.starling.tensor.TensorException if the rule does not apply to such a parameter
     */
    Map<String, Shape> slots(Shape parameter);

    /**
     * Returns whether the state beside 16-bit weights is f32, in which the step is then computed: a count of steps
     * would not grow beyond 256 in bf16, or 2,048 in f16, nor a mean of ones with decay 0.999 beyond 1/2 in bf16, and
     * the squares of small gradients are 0 in f16.
     */
    default boolean widensState() {
        return false;
    }

    /**
     * Computes a step {@code weights -= rate·direction}.
     *
     * @param state one tensor for each slot
     * @param rate learning rate of the step
     * @return the direction, of the shape of the weights, and then the new state
     * @throws dev.starling.tensor.TensorException if the gradient has another shape than the weights, or the state
     *     others than {@link #slots}
     */
    Tensor[] step(Tensor weights, Tensor gradient, Tensor[] state, double rate);
}
