package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/**
 * Comparisons and predicates, whose result is {@link DType#BOOL}. Comparisons with NaN are false except
 * {@code notEqual}.
 */
public final class Comparison {
    /** a = b. */
    public static final FormulaOp EQUAL = test("equal", Opcode.EQ);
    /** a ≠ b. */
    public static final FormulaOp NOT_EQUAL = test("notEqual", Opcode.NE);
    /** a &lt; b. */
    public static final FormulaOp LESS = test("less", Opcode.LT);
    /** a ≤ b. */
    public static final FormulaOp LESS_EQUAL = test("lessEqual", Opcode.LE);
    /** a &gt; b. */
    public static final FormulaOp GREATER = test("greater", Opcode.GT);
    /** a ≥ b. */
    public static final FormulaOp GREATER_EQUAL = test("greaterEqual", Opcode.GE);
    /** x is NaN; one operand. */
    public static final FormulaOp IS_NAN = test("isNan", Opcode.IS_NAN);
    /** x is infinite; one operand. */
    public static final FormulaOp IS_INF = test("isInf", Opcode.IS_INF);
    /** x is neither NaN nor infinite; one operand. */
    public static final FormulaOp IS_FINITE = test("isFinite", Opcode.IS_FINITE);

    private Comparison() { }

    private static FormulaOp test(String name, Opcode opcode) {
        return new FormulaOp(name, FormulaOp.Types.TESTED, Formula.of(opcode), null);
    }
}
