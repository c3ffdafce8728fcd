package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/**
 * Comparisons and predicates, whose result is {@link DType#BOOL}. Comparisons with NaN are false except
 * {@code notEqual}.
 */
public sealed interface Comparison extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        return new Spec[] {Elementwise.same(this, formula().operands(), in)[0].with(DType.BOOL)};
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /** a = b. */
    record Equal() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.EQ);
        }
    }

    /** a ≠ b. */
    record NotEqual() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.NE);
        }
    }

    /** a &lt; b. */
    record Less() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LT);
        }
    }

    /** a ≤ b. */
    record LessEqual() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LE);
        }
    }

    /** a &gt; b. */
    record Greater() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.GT);
        }
    }

    /** a ≥ b. */
    record GreaterEqual() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.GE);
        }
    }

    /** x is NaN; one operand. */
    record IsNan() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.IS_NAN);
        }
    }

    /** x is infinite; one operand. */
    record IsInf() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.IS_INF);
        }
    }

    /** x is neither NaN nor infinite; one operand. */
    record IsFinite() implements Comparison {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.IS_FINITE);
        }
    }
}
