package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Scalar;

/**
 * Converts elements: to narrower floats with rounding to nearest even, to integers with truncation towards zero (beyond
 * 64 bits as Java does), to bool as {@code x ≠ 0}.
 *
 * @param target the type to convert to
 */
public record Cast(DType target) implements Elementwise {
    private static final Formula OPERAND = Formula.of(Scalar.operand(0));

    @Override
    public Formula formula() {
        return OPERAND;
    }

    @Override
    public Spec[] infer(Spec... in) {
        Check.operands(this, in, 1, 1);
        return new Spec[] {in[0].with(target)};
    }

    @Override
    public boolean differentiable() {
        return target.isFloating();
    }

    @Override
    public Tensor[] vjp(Backward b) {
        return new Tensor[] {b.in(0).dtype().isFloating() ? b.grad().to(b.in(0).dtype()) : null};
    }
}
