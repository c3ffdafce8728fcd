package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/** Logical operations on booleans, bitwise on integers. */
public sealed interface Logic extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        Spec[] out = Elementwise.same(this, formula().operands(), in);
        Check.dtype(!in[0].dtype().isFloating(), this, "needs bool or integers",
                "compare the operand with a value first", in);
        return out;
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /** a ∧ b. */
    record And() implements Logic {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.AND);
        }
    }

    /** a ∨ b. */
    record Or() implements Logic {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.OR);
        }
    }

    /** a ⊕ b. */
    record Xor() implements Logic {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.XOR);
        }
    }

    /** ¬a; one operand. */
    record Not() implements Logic {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.NOT);
        }
    }
}
