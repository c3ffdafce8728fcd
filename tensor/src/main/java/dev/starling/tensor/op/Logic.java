package dev.starling.tensor.op;

import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/** Logical operations on booleans, bitwise on integers. */
public final class Logic {
    /** a ∧ b. */
    public static final FormulaOp AND = bits("and", Opcode.AND);
    /** a ∨ b. */
    public static final FormulaOp OR = bits("or", Opcode.OR);
    /** a ⊕ b. */
    public static final FormulaOp XOR = bits("xor", Opcode.XOR);
    /** ¬a; one operand. */
    public static final FormulaOp NOT = bits("not", Opcode.NOT);

    private Logic() { }

    private static FormulaOp bits(String name, Opcode opcode) {
        return new FormulaOp(name, FormulaOp.Types.BITS, Formula.of(opcode), null);
    }
}
