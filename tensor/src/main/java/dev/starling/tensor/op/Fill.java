package dev.starling.tensor.op;

import dev.starling.tensor.Spec;

/** Tensors made from numbers. */
public sealed interface Fill extends Op {
    /** Returns the spec of the result. */
    Spec spec();

    @Override
    default Spec[] infer(Spec... in) {
        Check.operands(this, in, 0, 0);
        Check.shape(!(this instanceof Range) || spec().shape().rank() == 1, this, "needs a shape of rank 1",
                "reshape the result", spec());
        return new Spec[] {spec()};
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /**
     * One value in all elements.
     *
     * @param spec of the result
     * @param value converted as by {@link Cast}
     */
    record Full(Spec spec, double value) implements Fill { }

    /**
     * {@code start + i·step} for element {@code i}, computed in double precision and converted as by {@link Cast}.
     *
     * @param spec of the result, of rank 1
     * @param start the first value
     * @param step distance between neighbours
     */
    record Range(Spec spec, double start, double step) implements Fill { }
}
