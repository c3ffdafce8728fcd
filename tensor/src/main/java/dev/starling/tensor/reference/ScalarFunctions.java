package dev.starling.tensor.reference;

import dev.starling.tensor.op.scalar.Opcode;

/** The primitive functions of double-precision numbers. Special values are those of IEEE 754 and NumPy. */
final class ScalarFunctions {
    /** Above this value x² + 1 rounds to x², and both inverse hyperbolic functions to ln 2x. */
    private static final double LARGE = 1e9;

    private ScalarFunctions() {
    }

    /** Returns a function of up to three numbers; bools are 0 and 1. */
    static double of(Opcode opcode, double a, double b, double c) {
        return switch (opcode) {
            case ADD -> a + b;
            case SUB -> a - b;
            case MUL -> a * b;
            case DIV -> a / b;
            case POW -> pow(a, b);
            case REMAINDER -> remainder(a, b);
            case FLOOR_DIVIDE -> floorDivide(a, b);
            case MAXIMUM -> Math.max(a, b);
            case MINIMUM -> Math.min(a, b);
            case ATAN2 -> StrictMath.atan2(a, b);
            case EQ -> number(a == b);
            case NE -> number(a != b);
            case LT -> number(a < b);
            case LE -> number(a <= b);
            case GT -> number(a > b);
            case GE -> number(a >= b);
            case AND -> number(a != 0 && b != 0);
            case OR -> number(a != 0 || b != 0);
            case XOR -> number(a != 0 ^ b != 0);
            case NOT -> number(a == 0);
            case IS_NAN -> number(Double.isNaN(a));
            case IS_INF -> number(Double.isInfinite(a));
            case IS_FINITE -> number(Double.isFinite(a));
            case WHERE -> a != 0 ? b : c;
            case CLAMP -> clamp(a, b, c);
            case LEAKY_RELU -> a > 0 ? a : b * a;
            case ELU -> a > 0 ? a : b * StrictMath.expm1(a);
            case AFFINE -> a * b + c;
            case FMA -> Math.fma(a, b, c);
            case RELU_GRADIENT -> a > 0 ? b : 0;
            case SIGMOID_GRADIENT -> b * a * (1 - a);
            case TANH_GRADIENT -> b * (1 - a * a);
            case SILU_GRADIENT -> b * sigmoid(a) * (1 + a * (1 - sigmoid(a)));
            case GELU_GRADIENT -> b * geluSlope(false, a);
            case GELU_TANH_GRADIENT -> b * geluSlope(true, a);
            case NEG, ABS, SIGN, SQUARE, SQRT, RSQRT, RECIPROCAL, EXP, EXPM1, LOG, LOG1P, SIN, COS, TAN, ASIN, ACOS,
                    ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH, ERF, FLOOR, CEIL, TRUNC, ROUND, SIGMOID, RELU, GELU,
                    GELU_TANH, SILU, SOFTPLUS, CAST -> of(opcode, a);
        };
    }

    private static double of(Opcode opcode, double x) {
        return switch (opcode) {
            case NEG -> -x;
            case ABS -> Math.abs(x);
            case SIGN -> Math.signum(x);
            case SQUARE -> x * x;
            case EXP -> StrictMath.exp(x);
            case EXPM1 -> StrictMath.expm1(x);
            case LOG -> StrictMath.log(x);
            case LOG1P -> StrictMath.log1p(x);
            case SQRT -> Math.sqrt(x);
            case RSQRT -> 1 / Math.sqrt(x);
            case RECIPROCAL -> 1 / x;
            case SIN -> StrictMath.sin(x);
            case COS -> StrictMath.cos(x);
            case TAN -> StrictMath.tan(x);
            case ASIN -> StrictMath.asin(x);
            case ACOS -> StrictMath.acos(x);
            case ATAN -> StrictMath.atan(x);
            case SINH -> StrictMath.sinh(x);
            case COSH -> StrictMath.cosh(x);
            case TANH -> StrictMath.tanh(x);
            case ASINH -> Math.copySign(asinhOfPositive(Math.abs(x)), x);
            case ACOSH -> acosh(x);
            case ATANH -> Math.copySign(0.5 * StrictMath.log1p(2 * Math.abs(x) / (1 - Math.abs(x))), x);
            case ERF -> erf(x);
            case FLOOR -> Math.floor(x);
            case CEIL -> Math.ceil(x);
            case ROUND -> Math.rint(x);
            case TRUNC -> x < 0 ? Math.ceil(x) : Math.floor(x);
            case RELU -> Math.max(x, 0);
            case SIGMOID -> sigmoid(x);
            // For x far below 0 the exponential of -x overflows before the result is 0.
            case SILU -> x < -1 ? x * StrictMath.exp(x) / (1 + StrictMath.exp(x)) : x / (1 + StrictMath.exp(-x));
            case SOFTPLUS -> Math.max(x, 0) + StrictMath.log1p(StrictMath.exp(-Math.abs(x)));
            case GELU -> x * normalCumulative(false, x);
            case GELU_TANH -> x * normalCumulative(true, x);
            default -> throw new AssertionError(opcode + " is no function of one number without a type");
        };
    }

    private static double number(boolean condition) {
        return condition ? 1 : 0;
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

    /** Numbers within the bounds stay, with the sign of a zero. */
    private static double clamp(double a, double low, double high) {
        double atLeast = a < low ? low : a;
        return high < atLeast ? high : atLeast;
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
