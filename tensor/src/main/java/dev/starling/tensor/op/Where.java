package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import org.jspecify.annotations.Nullable;

/**
 * Selects by a condition: operands {@code (condition bool, a, b)} that broadcast together, {@code a} and {@code b} of
 * the same type.
 */
public record Where() implements Elementwise {
    @Override
    public Formula formula() {
        return Formula.of(Opcode.WHERE);
    }

    @Override
    public Spec[] infer(Spec... in) {
        Check.operands(this, in, 3, 3);
        Check.dtype(in[0].dtype() == DType.BOOL, this, "the condition must be bool",
                "compare a tensor with a value first", in);
        Check.sameType(this, in[1], in[2]);
        Spec ab = in[1].with(Check.broadcast(this, in[1], in[2]));
        return new Spec[] {ab.with(Check.broadcast(this, in[0], ab))};
    }

    @Override
    public Tensor[] vjp(Backward b) {
        Tensor condition = b.in(0);
        return new Tensor[] {null,
            b.needs(1) ? select(condition, b.grad(), null).sumTo(b.in(1).shape()) : null,
            b.needs(2) ? select(condition.not(), b.grad(), null).sumTo(b.in(2).shape()) : null};
    }

    /** Returns {@code a} where the condition is true and {@code b} elsewhere, or 0 if {@code b} is {@code null}. */
    static Tensor select(Tensor condition, Tensor a, @Nullable Tensor b) {
        return Tensor.compute(new Where(), condition, a, b == null ? a.scalarLike(0) : b);
    }
}
