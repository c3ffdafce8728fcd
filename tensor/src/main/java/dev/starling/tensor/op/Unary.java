package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Functions of one operand. Functions of analysis need a floating type; others, such as {@code neg} and {@code abs},
 * accept any number.
 */
public final class Unary {
    /** -x. */
    public static final FormulaOp NEG = numeric("neg", Opcode.NEG, b -> b.grad().neg());
    /** |x|; gradient 0 at 0. */
    public static final FormulaOp ABS = numeric("abs", Opcode.ABS, b -> b.grad().mul(b.in(0).sign()));
    /** -1, 0 or 1; NaN for NaN; gradient 0. */
    public static final FormulaOp SIGN = numeric("sign", Opcode.SIGN, null);
    /** x². */
    public static final FormulaOp SQUARE = numeric("square", Opcode.SQUARE, b -> b.grad().mul(b.in(0).mul(2)));
    /** eˣ. */
    public static final FormulaOp EXP = analytic("exp", Opcode.EXP, b -> b.grad().mul(b.out(0)));
    /** eˣ - 1, accurate near 0. */
    public static final FormulaOp EXPM1 = analytic("expm1", Opcode.EXPM1, b -> b.grad().mul(b.out(0).add(1)));
    /** Natural logarithm. */
    public static final FormulaOp LOG = analytic("log", Opcode.LOG, b -> b.grad().div(b.in(0)));
    /** ln(1 + x), accurate near 0. */
    public static final FormulaOp LOG1P = analytic("log1p", Opcode.LOG1P, b -> b.grad().div(b.in(0).add(1)));
    /** Square root. */
    public static final FormulaOp SQRT = analytic("sqrt", Opcode.SQRT, b -> b.grad().div(b.out(0).mul(2)));
    /** 1/√x. */
    public static final FormulaOp RSQRT = analytic("rsqrt", Opcode.RSQRT,
            b -> b.grad().mul(b.out(0).mul(b.out(0).square()).mul(-0.5)));
    /** 1/x. */
    public static final FormulaOp RECIPROCAL = analytic("reciprocal", Opcode.RECIPROCAL,
            b -> b.grad().mul(b.out(0).square().neg()));
    /** Sine of radians. */
    public static final FormulaOp SIN = analytic("sin", Opcode.SIN, b -> b.grad().mul(b.in(0).cos()));
    /** Cosine of radians. */
    public static final FormulaOp COS = analytic("cos", Opcode.COS, b -> b.grad().mul(b.in(0).sin().neg()));
    /** Tangent of radians. */
    public static final FormulaOp TAN = analytic("tan", Opcode.TAN, b -> b.grad().mul(b.out(0).square().add(1)));
    /** Arc sine in radians. */
    public static final FormulaOp ASIN = analytic("asin", Opcode.ASIN,
            b -> b.grad().mul(b.in(0).square().neg().add(1).rsqrt()));
    /** Arc cosine in radians. */
    public static final FormulaOp ACOS = analytic("acos", Opcode.ACOS,
            b -> b.grad().mul(b.in(0).square().neg().add(1).rsqrt().neg()));
    /** Arc tangent in radians. */
    public static final FormulaOp ATAN = analytic("atan", Opcode.ATAN,
            b -> wide(b, (g, x) -> g.div(x.square().add(1))));
    /** Hyperbolic sine. */
    public static final FormulaOp SINH = analytic("sinh", Opcode.SINH, b -> b.grad().mul(b.in(0).cosh()));
    /** Hyperbolic cosine. */
    public static final FormulaOp COSH = analytic("cosh", Opcode.COSH, b -> b.grad().mul(b.in(0).sinh()));
    /** Hyperbolic tangent. */
    public static final FormulaOp TANH = analytic("tanh", Opcode.TANH,
            b -> Activation.gradient(b, Activation.TANH_GRADIENT, b.out(0), () -> b.out(0).square().neg().add(1)));
    /** Inverse hyperbolic sine. */
    public static final FormulaOp ASINH = analytic("asinh", Opcode.ASINH,
            b -> wide(b, (g, x) -> g.mul(x.square().add(1).rsqrt())));
    /** Inverse hyperbolic cosine. */
    public static final FormulaOp ACOSH = analytic("acosh", Opcode.ACOSH,
            b -> wide(b, (g, x) -> g.mul(x.square().sub(1).rsqrt())));
    /** Inverse hyperbolic tangent. */
    public static final FormulaOp ATANH = analytic("atanh", Opcode.ATANH,
            b -> b.grad().div(b.in(0).square().neg().add(1)));
    /** Error function. */
    public static final FormulaOp ERF = analytic("erf", Opcode.ERF,
            b -> b.grad().mul(b.in(0).square().neg().exp().mul(2 / Math.sqrt(Math.PI))));
    /** Largest integer not above x; gradient 0. */
    public static final FormulaOp FLOOR = analytic("floor", Opcode.FLOOR, null);
    /** Smallest integer not below x; gradient 0. */
    public static final FormulaOp CEIL = analytic("ceil", Opcode.CEIL, null);
    /** Nearest integer, ties to even; gradient 0. */
    public static final FormulaOp ROUND = analytic("round", Opcode.ROUND, null);
    /** x rounded towards 0; gradient 0. */
    public static final FormulaOp TRUNC = analytic("trunc", Opcode.TRUNC, null);

    private Unary() { }

    private static FormulaOp numeric(String name, Opcode opcode, @Nullable Function<Backward, Tensor> gradient) {
        return FormulaOp.of(name, FormulaOp.Types.ALL, Formula.of(opcode), gradient);
    }

    private static FormulaOp analytic(String name, Opcode opcode, @Nullable Function<Backward, Tensor> gradient) {
        return FormulaOp.of(name, FormulaOp.Types.FLOATING, Formula.of(opcode), gradient);
    }

    /** Returns the gradient that {@code of} computes of g and x: in f32 for 16-bit floats, whose squares overflow. */
    static Tensor wide(Backward b, BinaryOperator<Tensor> of) {
        DType type = b.in(0).dtype();
        DType wide = type.bytes() == 2 ? DType.F32 : type;
        return of.apply(b.grad().to(wide), b.in(0).to(wide)).to(type);
    }

    /**
     * x·scale + shift, rounded after each step because kernels may fuse the steps.
     *
     * @param scale factor
     * @param shift summand
     */
    public record Affine(double scale, double shift) implements Elementwise {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.AFFINE, 2);
        }

        @Override
        public double[] parameters() {
            return new double[] {scale, shift};
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 1, in);
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
    public record PowScalar(double exponent) implements Elementwise {
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
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {exponent == 0 ? b.in(0).zerosLike()
                    : b.grad().mul(b.in(0).pow(exponent - 1).mul(exponent))};
        }
    }

    /**
     * min(max(x, low), high); NaN is kept; gradient 0 outside.
     *
     * @param low smallest value
     * @param high largest value
     */
    public record Clamp(double low, double high) implements Elementwise {
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
            if (Double.isNaN(low) || Double.isNaN(high)) {
                throw Check.argument(this, "the bounds must not be NaN, got " + low + " and " + high,
                        "use infinities for open bounds", in);
            }
            return Elementwise.same(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Where.select(b.in(0).ge(low).and(b.in(0).le(high)), b.grad(), null)};
        }
    }
}
