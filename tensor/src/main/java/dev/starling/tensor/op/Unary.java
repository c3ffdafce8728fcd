package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;

/**
 * Functions of one operand. Functions of analysis need a floating type; others, such as {@code neg} and {@code abs},
 * accept any number.
 */
public sealed interface Unary extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        return Elementwise.floating(this, 1, in);
    }

    /** -x. */
    record Neg() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.NEG);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.same(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().neg()};
        }
    }

    /** |x|; gradient 0 at 0. */
    record Abs() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ABS);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.same(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).sign())};
        }
    }

    /** -1, 0 or 1; NaN for NaN; gradient 0. */
    record Sign() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SIGN);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.same(this, 1, in);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** x². */
    record Square() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SQUARE);
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.same(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).mul(2))};
        }
    }

    /** eˣ. */
    record Exp() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.EXP);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.out(0))};
        }
    }

    /** eˣ - 1, accurate near 0. */
    record Expm1() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.EXPM1);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.out(0).add(1))};
        }
    }

    /** Natural logarithm. */
    record Log() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LOG);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.in(0))};
        }
    }

    /** ln(1 + x), accurate near 0. */
    record Log1p() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LOG1P);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.in(0).add(1))};
        }
    }

    /** Square root. */
    record Sqrt() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SQRT);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.out(0).mul(2))};
        }
    }

    /** 1/√x. */
    record Rsqrt() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.RSQRT);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.out(0).mul(b.out(0).square()).mul(-0.5))};
        }
    }

    /** 1/x. */
    record Reciprocal() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.RECIPROCAL);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.out(0).square().neg())};
        }
    }

    /** Sine of radians. */
    record Sin() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SIN);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).cos())};
        }
    }

    /** Cosine of radians. */
    record Cos() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.COS);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).sin().neg())};
        }
    }

    /** Tangent of radians. */
    record Tan() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.TAN);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.out(0).square().add(1))};
        }
    }

    /** Arc sine in radians. */
    record Asin() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ASIN);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).square().neg().add(1).rsqrt())};
        }
    }

    /** Arc cosine in radians. */
    record Acos() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ACOS);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).square().neg().add(1).rsqrt().neg())};
        }
    }

    /** Arc tangent in radians. */
    record Atan() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ATAN);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.in(0).square().add(1))};
        }
    }

    /** Hyperbolic sine. */
    record Sinh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SINH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).cosh())};
        }
    }

    /** Hyperbolic cosine. */
    record Cosh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.COSH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).sinh())};
        }
    }

    /** Hyperbolic tangent. */
    record Tanh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.TANH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Activation.gradient(b, new Activation.TanhGradient(), b.out(0),
                    () -> b.out(0).square().neg().add(1))};
        }
    }

    /** Inverse hyperbolic sine. */
    record Asinh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ASINH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).square().add(1).rsqrt())};
        }
    }

    /** Inverse hyperbolic cosine. */
    record Acosh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ACOSH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).square().sub(1).rsqrt())};
        }
    }

    /** Inverse hyperbolic tangent. */
    record Atanh() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ATANH);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.in(0).square().neg().add(1))};
        }
    }

    /** Error function. */
    record Erf() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ERF);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).square().neg().exp().mul(2 / Math.sqrt(Math.PI)))};
        }
    }

    /** Largest integer not above x; gradient 0. */
    record Floor() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.FLOOR);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** Smallest integer not below x; gradient 0. */
    record Ceil() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.CEIL);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** Nearest integer, ties to even; gradient 0. */
    record Round() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ROUND);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** x rounded towards 0; gradient 0. */
    record Trunc() implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.TRUNC);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /**
     * x·scale + shift, rounded after each step because kernels may fuse the steps.
     *
     * @param scale factor
     * @param shift summand
     */
    record Affine(double scale, double shift) implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.AFFINE, 2);
        }

        @Override
        public double[] parameters() {
            return new double[] {scale, shift};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(scale)};
        }
    }

    /**
     * xᵖ.
     *
     * @param exponent p
     */
    record PowScalar(double exponent) implements Unary {
        @Override
        public Formula formula() {
            return isSquare() ? Formula.of(Opcode.SQUARE)
                    : exponent == -1 ? Formula.of(Opcode.RECIPROCAL) : Formula.of(Opcode.POW, 1);
        }

        @Override
        public double[] parameters() {
            return isSquare() || exponent == -1 ? Formula.noParameters() : new double[] {exponent};
        }

        private boolean isSquare() {
            return exponent == 2;
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).pow(exponent - 1).mul(exponent))};
        }
    }

    /**
     * min(max(x, low), high); NaN is kept; gradient 0 outside.
     *
     * @param low smallest value
     * @param high largest value
     */
    record Clamp(double low, double high) implements Unary {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.CLAMP, 2);
        }

        @Override
        public double[] parameters() {
            return new double[] {low, high};
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.argument(!Double.isNaN(low) && !Double.isNaN(high), this, () -> "the bounds must not be NaN, got "
                    + low + " and " + high,
                    "use infinities for open bounds", in);
            return Elementwise.same(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Where.select(b.in(0).ge(low).and(b.in(0).le(high)), b.grad(), null)};
        }
    }
}
