package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.Expression.Builder;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.op.scalar.Opcode;

/** Expressions of one primitive function. */
public final class SingleOpcode {
    private SingleOpcode() {
    }

    /** Returns the expression of an opcode, whose last {@code parameters} operands are parameters. */
    public static Expression of(Opcode opcode, DType type, int parameters) {
        Builder builder = new Builder();
        Value[] operands = new Value[opcode.arity()];
        for (int i = 0; i < operands.length; i++) {
            DType operand = opcode == Opcode.WHERE && i == 0 ? DType.BOOL : type;
            operands[i] = i < operands.length - parameters ? builder.input(operand) : builder.parameter(operand);
        }
        return builder.output(builder.apply(opcode, operands)).build();
    }
}
