package dev.starling.tensor.op;

import dev.starling.tensor.Spec;

/**
 * Operations that compute each element of the output from the elements at the same position of the broadcast operands.
 */
public sealed interface Elementwise extends Op permits Unary, Activation, Binary, Comparison, Logic, Where, Cast {
    /**
     * Infers the output of an operation on {@code count} floating operands of the same type that broadcast together.
     */
    static Spec[] floating(Op op, int count, Spec... in) {
        Check.floating(op, in);
        return same(op, count, in);
    }

    /** Infers the output of an operation on {@code count} operands of the same type that broadcast together. */
    static Spec[] same(Op op, int count, Spec... in) {
        Check.operands(op, in, count, count);
        Spec out = in[0];
        for (int i = 1; i < in.length; i++) {
            if (in[i] != out) {
                Check.sameType(op, in);
                out = out.with(Check.broadcast(op, out, in[i]));
            }
        }
        return new Spec[] {out};
    }
}
