package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/** Arithmetic of two operands of the same type that broadcast together. */
public sealed interface Binary extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        return Elementwise.same(this, 2, in);
    }

    private static Tensor[] gradients(Backward b, java.util.function.Supplier<Tensor> first,
            java.util.function.Supplier<Tensor> second) {
        return new Tensor[] {b.needs(0) ? first.get().sumTo(b.in(0).shape()) : null,
            b.needs(1) ? second.get().sumTo(b.in(1).shape()) : null};
    }

    /** a + b. */
    record Add() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ADD);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad(),
                    () -> b.grad());
        }
    }

    /** a - b. */
    record Sub() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SUB);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad(),
                    () -> b.grad().neg());
        }
    }

    /** a·b. */
    record Mul() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.MUL);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().mul(b.in(1)),
                    () -> b.grad().mul(b.in(0)));
        }
    }

    /** a / b; true division, floating only. */
    record Div() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.DIV);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 2, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().div(b.in(1)),
                    () -> b.grad().mul(b.out(0)).div(b.in(1)).neg());
        }
    }

    /** aᵇ; the gradient of b is 0 where a is 0. */
    record Pow() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.POW);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 2, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().mul(b.in(1)).mul(b.in(0).pow(b.in(1).sub(1))),
                    () -> Where.select(b.in(0).ne(0),
                    b.grad().mul(b.out(0)).mul(Where.select(b.in(0).ne(0), b.in(0), b.in(0).onesLike()).log()), null));
        }
    }

    /** a - ⌊a/b⌋·b: the sign of b, as in NumPy and Python. */
    record Remainder() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.REMAINDER);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad(),
                    () -> b.grad().mul(b.in(0).floorDivide(b.in(1)).neg()));
        }
    }

    /** ⌊a/b⌋; integer division by zero gives 0; gradient 0. */
    record FloorDivide() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.FLOOR_DIVIDE);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** The larger operand; NaN if either is NaN; equal operands each get half of the gradient. */
    record Maximum() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.MAXIMUM);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().mul(share(b.in(0), b.in(1))),
                    () -> b.grad().mul(share(b.in(1), b.in(0))));
        }
    }

    /** The smaller operand; NaN if either is NaN; equal operands each get half of the gradient. */
    record Minimum() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.MINIMUM);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().mul(share(b.in(1), b.in(0))),
                    () -> b.grad().mul(share(b.in(0), b.in(1))));
        }
    }

    /** Angle of the point (b, a) in radians. */
    record Atan2() implements Binary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ATAN2);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 2, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return gradients(b, () -> b.grad().mul(b.in(1)).div(b.in(0).square().add(b.in(1).square())),
                    () -> b.grad().mul(b.in(0).neg()).div(b.in(0).square().add(b.in(1).square())));
        }
    }

    /** Returns 1 where a > b, ½ where they are equal, else 0. */
    private static Tensor share(Tensor a, Tensor b) {
        return a.gt(b).to(a.dtype()).add(a.eq(b).to(a.dtype()).mul(0.5));
    }
}
