package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.op.scalar.Opcode;
import java.util.function.IntBinaryOperator;

/**
 * The functions of floating lanes, composed of primitives, with one definition for loops over vectors and over
 * elements. The most common functions of f32 use f32 lanes ({@link Approximation}), all others f64 lanes.
 */
final class Functions {
    private static final double SQRT_HALF = Math.sqrt(0.5);
    private static final double GELU_CUBIC = 0.044715;
    private static final double GELU_SCALE = Math.sqrt(2 / Math.PI);
    /** erf(x) / x in x^2 for |x| below 1. */
    private static final double[] ERF_SMALL = {1.1283791670955126, -0.3761263890318352, 0.11283791670944185,
        -0.026866170643111465, 0.005223977606118452, -0.0008548325929313059, 0.00012055293576852771,
        -1.492471230106381e-05, 1.6447131559733455e-06, -1.6206313672840117e-07, 1.3710980043116725e-08,
        -7.779467857911401e-10};
    /** erfc(x) * e^(x^2) in (x - 2.5) / (x + 2.5) for x from 1 to 6. */
    private static final double[] ERFC_LARGE = {0.2108063640611436, -0.3717367339489734, 0.2517131932174493,
        -0.12503305237882478, 0.039922539075588494, -0.0039937011662206255, -0.0026423659643980487,
        0.0008759154630929273, 0.0002283803796103911, -0.00012887741668299725, -3.4182227925917105e-05,
        1.8617090260192124e-05, 7.552400403669301e-06, -2.314193462794071e-06, -1.80088876239731e-06,
        1.2986876287634174e-07, 3.4198641732131955e-07};

    private final LoopBody body;
    private final Approximation single;
    private final Doubles exact;
    /** As exact as results that are rounded to f32 need. */
    private final Doubles brief;

    /** The functions of f64 lanes. */
    private record Doubles(Exponential exponential, Logarithm logarithm, Trigonometry trigonometry) {
        static Doubles of(LoopBody body, boolean brief) {
            return new Doubles(new Exponential(body, brief), new Logarithm(body, brief), new Trigonometry(body, brief));
        }

        int apply(Opcode opcode, int x) {
            return switch (opcode) {
                case SIN -> trigonometry.sin(x);
                case COS -> trigonometry.cos(x);
                case TAN -> trigonometry.tan(x);
                case ASIN -> trigonometry.asin(x);
                case ACOS -> trigonometry.acos(x);
                case ATAN -> trigonometry.atan(x);
                case SINH -> exponential.sinh(x);
                case COSH -> exponential.cosh(x);
                case ASINH -> logarithm.asinh(x);
                case ACOSH -> logarithm.acosh(x);
                case ATANH -> logarithm.atanh(x);
                default -> throw new IllegalArgumentException(opcode + " is not computed in f64");
            };
        }
    }

    Functions(LoopBody body) {
        this.body = body;
        single = new Approximation(body);
        exact = Doubles.of(body, false);
        brief = Doubles.of(body, true);
    }

    private boolean isSingle(int x) {
        return body.lane(x) == Lane.F32;
    }

    private int c(int like, double value) {
        return body.constantLike(like, value);
    }

    /** Computes a function that has no approximation in f32: of f32 lanes in f64, rounded once. */
    int viaDouble(Opcode opcode, int x) {
        return isSingle(x) ? body.convert(Lane.F32, brief.apply(opcode, body.convert(Lane.F64, x)))
                : exact.apply(opcode, x);
    }

    private int viaDouble(IntBinaryOperator function, int x, int y) {
        return body.convert(Lane.F32, function.applyAsInt(body.convert(Lane.F64, x), body.convert(Lane.F64, y)));
    }

    int exp(int x) {
        return isSingle(x) ? single.exp(x) : exact.exponential.exp(x);
    }

    int expm1(int x) {
        return isSingle(x) ? single.expm1(x) : exact.exponential.expm1(x);
    }

    int log(int x) {
        return isSingle(x) ? single.log(x) : exact.logarithm.log(x);
    }

    int log1p(int x) {
        return isSingle(x) ? single.log1p(x) : exact.logarithm.log1p(x);
    }

    int pow(int x, int y) {
        return isSingle(x) ? viaDouble(brief.logarithm::pow, x, y) : exact.logarithm.pow(x, y);
    }

    int atan2(int y, int x) {
        return isSingle(x) ? viaDouble(brief.trigonometry::atan2, y, x) : exact.trigonometry.atan2(y, x);
    }

    int tanh(int x) {
        return isSingle(x) ? single.tanh(x) : exact.exponential.tanh(x);
    }

    int erf(int x) {
        return isSingle(x) ? single.erf(x) : erfDouble(x);
    }

    private int erfDouble(int x) {
        int small = body.mul(x, body.polynomial(body.mul(x, x), ERF_SMALL));
        int magnitude = body.abs(x);
        int bounded = body.select(body.less(c(x, 6), magnitude), c(x, 6), magnitude);
        int t = body.div(body.sub(bounded, c(x, 2.5)), body.add(bounded, c(x, 2.5)));
        int gauss = exp(body.neg(body.mul(bounded, bounded)));
        int large = body.sub(c(x, 1), body.mul(gauss, body.polynomial(t, ERFC_LARGE)));
        return body.select(body.less(magnitude, c(x, 1)), small, body.withSign(body.abs(large), x));
    }

    int sigmoid(int x) {
        return isSingle(x) ? body.div(c(x, 1), body.add(exp(body.neg(x)), c(x, 1)))
                : body.mul(body.select(body.less(x, c(x, 0)), exact.exponential.decay(x), c(x, 1)), gate(x));
    }

    /** {@code x * sigmoid(x)}; NaN for negative infinity. */
    int silu(int x) {
        if (isSingle(x)) {
            return body.mul(x, sigmoid(x));
        }
        int factor = body.add(body.clampBelow(x, -800), body.mul(x, c(x, 0)));
        int top = body.select(body.less(x, c(x, 0)), exact.exponential.decay(x, factor), x);
        return body.mul(top, gate(x));
    }

    /** {@code 1 / (1 + e^-|x|)}, corrected for the error of the division; no power overflows. */
    private int gate(int x) {
        Pair bottom = Pair.ordered(body, c(x, 1), exact.exponential.decay(x));
        int gate = body.div(c(x, 1), bottom.high());
        int rest = body.fma(body.neg(gate), bottom.high(), c(x, 1));
        return body.fma(gate, body.fma(body.neg(gate), bottom.low(), rest), gate);
    }

    int softplus(int x) {
        int positive = body.select(body.less(x, c(x, 0)), c(x, 0), x);
        return body.add(positive, log1p(exp(body.neg(body.abs(x)))));
    }

    /** The normal distribution function of x. */
    private int normal(int x) {
        int erf = erf(body.mul(x, c(x, SQRT_HALF)));
        return body.fma(erf, c(x, 0.5), c(x, 0.5));
    }

    int gelu(int x) {
        return body.mul(x, normal(x));
    }

    int geluGradient(int x, int g) {
        int density = body.mul(exp(body.mul(body.mul(x, x), c(x, -0.5))), c(x, 1 / Math.sqrt(2 * Math.PI)));
        return body.mul(g, body.fma(x, density, normal(x)));
    }

    /** {@code (1 + tanh u) / 2} is {@code sigmoid(2 u)}. */
    private int geluTanhGate(int x) {
        int square = body.mul(x, x);
        int u = body.mul(x, body.fma(square, c(x, 2 * GELU_SCALE * GELU_CUBIC), c(x, 2 * GELU_SCALE)));
        return sigmoid(u);
    }

    int geluTanh(int x) {
        return body.mul(x, geluTanhGate(x));
    }

    /** Beyond 30 the gate is 0 or 1 in every type. */
    int geluTanhGradient(int unbounded, int g) {
        int x = body.select(body.less(c(unbounded, 30), unbounded), c(unbounded, 30), unbounded);
        x = body.select(body.less(x, c(x, -30)), c(x, -30), x);
        int gate = geluTanhGate(x);
        int square = body.mul(x, x);
        int inner = body.fma(square, c(x, 6 * GELU_SCALE * GELU_CUBIC), c(x, 2 * GELU_SCALE));
        int slope = body.mul(body.mul(gate, body.sub(c(x, 1), gate)), body.mul(x, inner));
        return body.mul(g, body.add(gate, slope));
    }

    int siluGradient(int x, int g) {
        int s = sigmoid(x);
        return body.mul(g, body.mul(s, body.fma(x, body.sub(c(x, 1), s), c(x, 1))));
    }

    /** Rounds to the nearest integer, ties to even: after adding 2^23 or 2^52 no fraction can be represented. */
    int round(int x) {
        int large = c(x, isSingle(x) ? 0x1p23 : 0x1p52);
        int magnitude = body.abs(x);
        int rounded = body.withSign(body.sub(body.add(magnitude, large), large), x);
        return body.select(body.less(magnitude, large), rounded, x);
    }

    int floor(int x) {
        int rounded = round(x);
        return body.select(body.less(x, rounded), body.sub(rounded, c(x, 1)), rounded);
    }

    int ceil(int x) {
        return body.neg(floor(body.neg(x)));
    }

    int trunc(int x) {
        return body.withSign(floor(body.abs(x)), x);
    }
}
