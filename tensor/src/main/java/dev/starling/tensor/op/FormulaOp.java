package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An elementwise operation without settings: its formula and its gradient define it completely. All of them are
 * constants of their families {@link Unary}, {@link Activation}, {@link Binary}, {@link Comparison} and {@link Logic}.
 */
public final class FormulaOp implements Elementwise {
    /** The types of operands, which must be equal, and of the result. */
    enum Types {
        /** Any type. */
        ALL,
        /** Floating types. */
        FLOATING,
        /** Bool and integers. */
        BITS,
        /** Any type; the result is bool. */
        TESTED
    }

    private final String name;
    private final Types types;
    private final Formula formula;
    private final @Nullable Function<Backward, Tensor[]> gradient;

    /**
     * Defines an operation.
     *
     * @param gradient see {@link Op#vjp}; {@code null} if no gradient flows through the operation
     */
    FormulaOp(String name, Types types, Formula formula, @Nullable Function<Backward, Tensor[]> gradient) {
        this.name = name;
        this.types = types;
        this.formula = formula;
        this.gradient = gradient;
    }

    /** Defines an operation by the gradient of its operand; {@code null} if none flows through the operation. */
    static FormulaOp of(String name, Types types, Formula formula, @Nullable Function<Backward, Tensor> gradient) {
        return new FormulaOp(name, types, formula,
                gradient == null ? null : b -> new Tensor[] {gradient.apply(b)});
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Formula formula() {
        return formula;
    }

    @Override
    public Spec[] infer(Spec... in) {
        if (types == Types.FLOATING) {
            return Elementwise.floating(this, formula.operands(), in);
        }
        Spec[] out = Elementwise.same(this, formula.operands(), in);
        Check.dtype(types != Types.BITS || !in[0].dtype().isFloating(), this, "needs bool or integers",
                "compare the operand with a value first", in);
        return types == Types.TESTED ? new Spec[] {out[0].with(DType.BOOL)} : out;
    }

    @Override
    public boolean differentiable() {
        return gradient != null;
    }

    @Override
    public Tensor[] vjp(Backward b) {
        return gradient == null ? Elementwise.super.vjp(b) : gradient.apply(b);
    }

    @Override
    public String toString() {
        return name;
    }
}
