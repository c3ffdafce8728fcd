package dev.starling.autograd;

import dev.starling.tensor.op.Backward;
import dev.starling.tensor.Tensor;

/** The vector-Jacobian product of a recorded step that is not a single operation. */
@FunctionalInterface
interface CustomVjp {
    /** See {@link dev.starling.tensor.op.Op#vjp}. */
    Tensor[] vjp(Backward b);

    /** Returns the name of the step in messages. */
    default String name() {
        return "recompute";
    }
}
