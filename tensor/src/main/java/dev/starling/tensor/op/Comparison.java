package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;

/**
 * Comparisons and predicates, whose result is {@link DType#BOOL}. Comparisons with NaN are false except
 * {@code notEqual}.
 */
public sealed interface Comparison extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        int count = this instanceof IsNan || this instanceof IsInf || this instanceof IsFinite ? 1 : 2;
        return new Spec[] {Elementwise.same(this, count, in)[0].with(DType.BOOL)};
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /** a = b. */
    record Equal() implements Comparison { }

    /** a ≠ b. */
    record NotEqual() implements Comparison { }

    /** a &lt; b. */
    record Less() implements Comparison { }

    /** a ≤ b. */
    record LessEqual() implements Comparison { }

    /** a &gt; b. */
    record Greater() implements Comparison { }

    /** a ≥ b. */
    record GreaterEqual() implements Comparison { }

    /** x is NaN; one operand. */
    record IsNan() implements Comparison { }

    /** x is infinite; one operand. */
    record IsInf() implements Comparison { }

    /** x is neither NaN nor infinite; one operand. */
    record IsFinite() implements Comparison { }
}
