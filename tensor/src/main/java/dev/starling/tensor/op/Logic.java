package dev.starling.tensor.op;

import dev.starling.tensor.Spec;

/** Logical operations on booleans, bitwise on integers. */
public sealed interface Logic extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        Spec[] out = Elementwise.same(this, this instanceof Not ? 1 : 2, in);
        Check.dtype(!in[0].dtype().isFloating(), this, "needs bool or integers",
                "compare the operand with a value first", in);
        return out;
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /** a ∧ b. */
    record And() implements Logic { }

    /** a ∨ b. */
    record Or() implements Logic { }

    /** a ⊕ b. */
    record Xor() implements Logic { }

    /** ¬a; one operand. */
    record Not() implements Logic { }
}
