package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * An operation on tensors. A leaf record defines its operation for all devices: its parameters, its requirements on
 * operands ({@link #infer}) and its gradient ({@link #vjp}). Backends switch over the leaves without a {@code default},
 * so that a new operation does not compile until every backend supports it.
 */
public sealed interface Op permits Elementwise, Reduction, Scan, View, Movement, Selection, Sorting, Contraction,
        Convolution, Pooling, Normalization, Softmax, Attention, Recurrence, CrossEntropy, Random, Fill, Transfer,
        Update {
    /**
     * Checks the operands' specs and returns the outputs' specs. The only place where shapes and types are checked.
     *
     * @param inputs in an array that the caller uses again
     */
    Spec[] infer(Spec... inputs);

    /**
     * Returns the vector-Jacobian product: for each input the gradient of a scalar, given its gradients with respect to
     * the outputs; {@code null} for inputs that need none. Written in tensor operations, so that it can be
     * differentiated again.
     */
    default Tensor[] vjp(Backward b) {
        return new Tensor[b.inputs().length];
    }

    /** Returns whether gradients flow through this operation. */
    default boolean differentiable() {
        return !(this instanceof GradientKernel);
    }

    /** Returns the operation's name for messages and tables. */
    default String name() {
        String simple = getClass().getSimpleName();
        return Character.toLowerCase(simple.charAt(0)) + simple.substring(1);
    }

    /**
     * Marks the fused kernel of a gradient, which has no gradient of its own. A {@link #vjp} uses it only where the
     * gradient is not itself recorded.
     */
    interface GradientKernel { }
}
