package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.op.scalar.Formula;

/**
 * Operations that compute each element of the output from the elements at the same position of the broadcast operands.
 */
public sealed interface Elementwise extends Op permits FormulaOp, Unary.Affine, Unary.PowScalar,
        Unary.Clamp, Activation.LeakyRelu, Activation.Elu, Where, Cast {
    /**
     * Returns what each element of the output is. All backends compute this formula and know nothing else of the
     * operation, so that an operation made of known functions needs no code in any of them.
     */
    Formula formula();

    /** Returns the values of the formula's parameters. */
    default double[] parameters() {
        return Formula.noParameters();
    }

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
