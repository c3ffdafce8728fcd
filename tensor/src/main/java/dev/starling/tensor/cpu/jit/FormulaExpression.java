package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A {@link Formula} with types, as part of an {@link Expression}. */
public final class FormulaExpression implements Formula.Interpretation<Value> {
    private final Expression.Builder builder;
    private final List<Value> operands;
    private final DType type;
    private boolean computable = true;

    private FormulaExpression(Expression.Builder builder, List<Value> operands) {
        this.builder = builder;
        this.operands = operands;
        type = operands.getLast().type();
    }

    /**
     * Returns the expression of a formula, or {@code null} if one of its functions is not defined for its operands.
     *
     * @param inputs types of the operands
     * @param outputs types to which the outputs are converted
     */
    public static @Nullable Expression of(Formula formula, List<DType> inputs, DType... outputs) {
        Expression.Builder builder = new Expression.Builder();
        List<Value> operands = new ArrayList<>();
        for (DType type : inputs) {
            operands.add(builder.input(type));
        }
        List<Value> values = append(formula, builder, operands);
        for (int i = 0; values != null && i < outputs.length; i++) {
            builder.output(builder.cast(values.get(i), outputs[i]));
        }
        return values == null ? null : builder.build();
    }

    /** Appends a formula of values; returns {@code null} if one of its functions is not defined for its operands. */
    public static @Nullable List<Value> append(Formula formula, Expression.Builder builder, List<Value> operands) {
        FormulaExpression expression = new FormulaExpression(builder, operands);
        List<Value> outputs = formula.interpret(expression);
        return expression.computable ? outputs : null;
    }

    @Override
    public Value operand(int number) {
        return operands.get(number);
    }

    @Override
    public Value parameter(int number) {
        return builder.parameter(type);
    }

    @Override
    public Value constant(double value) {
        return builder.constant(type, value);
    }

    @Override
    public Value apply(Opcode opcode, List<Value> of) {
        computable &= opcode.computes(of.getLast().type());
        return computable ? builder.apply(opcode, of.toArray(new Value[0])) : of.getLast();
    }
}
