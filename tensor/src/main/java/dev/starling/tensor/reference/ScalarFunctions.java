package dev.starling.tensor.reference;

import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Unary;

/** Functions of double-precision numbers. Special values are those of IEEE 754 and NumPy. */
final class ScalarFunctions {
    /** Above this value x² + 1 rounds to x², and both inverse hyperbolic functions to ln 2x. */
    private static final double LARGE = 1e9;

    private ScalarFunctions() {
    }

    static double of(Unary op, double x) {
        return switch (op) {
            case Unary.Neg o -> -x;
            case Unary.Abs o -> Math.abs(x);
            case Unary.Sign o -> Math.signum(x);
            case Unary.Square o -> x * x;
            case Unary.Exp o -> StrictMath.exp(x);
            case Unary.Expm1 o -> StrictMath.expm1(x);
            case Unary.Log o -> StrictMath.log(x);
            case Unary.Log1p o -> StrictMath.log1p(x);
            case Unary.Sqrt o -> Math.sqrt(x);
            case Unary.Rsqrt o -> 1 / Math.sqrt(x);
            case Unary.Reciprocal o -> 1 / x;
            case Unary.Sin o -> StrictMath.sin(x);
            case Unary.Cos o -> StrictMath.cos(x);
            case Unary.Tan o -> StrictMath.tan(x);
            case Unary.Asin o -> StrictMath.asin(x);
            case Unary.Acos o -> StrictMath.acos(x);
            case Unary.Atan o -> StrictMath.atan(x);
            case Unary.Sinh o -> StrictMath.sinh(x);
            case Unary.Cosh o -> StrictMath.cosh(x);
            case Unary.Tanh o -> StrictMath.tanh(x);
            case Unary.Asinh o -> Math.copySign(asinhOfPositive(Math.abs(x)), x);
            case Unary.Acosh o -> acosh(x);
            case Unary.Atanh o -> Math.copySign(0.5 * StrictMath.log1p(2 * Math.abs(x) / (1 - Math.abs(x))), x);
            case Unary.Erf o -> erf(x);
            case Unary.Floor o -> Math.floor(x);
            case Unary.Ceil o -> Math.ceil(x);
            case Unary.Round o -> Math.rint(x);
            case Unary.Trunc o -> x < 0 ? Math.ceil(x) : Math.floor(x);
            case Unary.Affine o -> x * o.scale() + o.shift();
            case Unary.PowScalar o -> pow(x, o.exponent());
            case Unary.Clamp o -> Math.min(Math.max(x, o.low()), o.high());
        };
    }

    /**
     * Returns an activation of {@code x}, or the gradient, where {@code x} may be the output and {@code g} is the
     * incoming gradient.
     */
    static double of(Activation op, double x, double g) {
        return switch (op) {
            case Activation.Relu o -> Math.max(x, 0);
            case Activation.LeakyRelu o -> x > 0 ? x : o.slope() * x;
            case Activation.Elu o -> x > 0 ? x : o.alpha() * StrictMath.expm1(x);
            case Activation.Sigmoid o -> sigmoid(x);
            // For x far below 0 the exponential of -x overflows before the result is 0.
            case Activation.Silu o -> x < -1 ? x * StrictMath.exp(x) / (1 + StrictMath.exp(x))
                    : x / (1 + StrictMath.exp(-x));
            case Activation.Softplus o -> Math.max(x, 0) + StrictMath.log1p(StrictMath.exp(-Math.abs(x)));
            case Activation.Gelu o -> x * normalCumulative(o.tanh(), x);
            case Activation.ReluGradient o -> x > 0 ? g : 0;
            case Activation.SigmoidGradient o -> g * x * (1 - x);
            case Activation.TanhGradient o -> g * (1 - x * x);
            case Activation.SiluGradient o -> g * sigmoid(x) * (1 + x * (1 - sigmoid(x)));
            case Activation.GeluGradient o -> g * geluSlope(o.tanh(), x);
        };
    }

    private static double sigmoid(double x) {
        return 1 / (1 + StrictMath.exp(-x));
    }

    /** Φ, or its approximation through tanh. */
    private static double normalCumulative(boolean tanh, double x) {
        return tanh ? 0.5 * (1 + StrictMath.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)))
                : 0.5 * (1 + erf(x / Math.sqrt(2)));
    }

    private static double geluSlope(boolean tanh, double x) {
        double cumulative = normalCumulative(tanh, x);
        if (!tanh) {
            return cumulative + x * StrictMath.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
        }
        // With Φ = ½(1 + t): Φ' = ½(1 - t²)·u' = 2Φ(1 - Φ)·u', where u is the argument of tanh. Where Φ is 0 or 1, x
        // may be infinite.
        double spread = 2 * cumulative * (1 - cumulative);
        double inner = Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * x * x);
        return spread == 0 ? cumulative : cumulative + x * spread * inner;
    }

    /**
     * Returns the error function by its series {@code 2/√π·e^(-x²)·Σ 2ⁿx²ⁿ⁺¹/(1·3···(2n+1))}, whose terms have the same
     * sign. (Abramowitz and Stegun, 7.1.6)
     */
    static double erf(double x) {
        if (Double.isNaN(x)) {
            return x;
        }
        if (Math.abs(x) > 6) {
            return Math.signum(x);
        }
        double term = x;
        double sum = x;
        for (int n = 1; Math.abs(term) > Math.abs(sum) * 1e-18; n++) {
            term *= 2 * x * x / (2 * n + 1);
            sum += term;
        }
        return 2 / Math.sqrt(Math.PI) * StrictMath.exp(-x * x) * sum;
    }

    private static double asinhOfPositive(double x) {
        return x > LARGE ? StrictMath.log(x) + StrictMath.log(2)
                : StrictMath.log1p(x + x * x / (1 + Math.sqrt(x * x + 1)));
    }

    private static double acosh(double x) {
        if (x < 1) {
            return Double.NaN;
        }
        double t = x - 1;
        return x > LARGE ? StrictMath.log(x) + StrictMath.log(2) : StrictMath.log1p(t + Math.sqrt(2 * t + t * t));
    }

    /**
     * Special cases as in C and NumPy: where Java returns NaN, 1 to any power is 1, and so is -1 to an infinite power.
     */
    static double pow(double a, double b) {
        return a == 1 || a == -1 && Double.isInfinite(b) ? 1 : StrictMath.pow(a, b);
    }

    static double remainder(double a, double b) {
        double r = a % b;
        if (r == 0) {
            return Math.copySign(0, b);
        }
        return r < 0 != b < 0 ? r + b : r;
    }

    /** Returns the floor of the exact quotient, which may be less than that of the rounded one; a/b if b is 0. */
    static double floorDivide(double a, double b) {
        if (b == 0) {
            return a / b;
        }
        double rest = a % b;
        double quotient = Math.rint((a - rest) / b) - (rest != 0 && rest < 0 != b < 0 ? 1 : 0);
        return quotient == 0 ? Math.copySign(0, a / b) : quotient;
    }
}
