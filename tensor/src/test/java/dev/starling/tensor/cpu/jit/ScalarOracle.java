package dev.starling.tensor.cpu.jit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.scalar.Opcode;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.Arrays;
import java.util.SplittableRandom;

/** The definition of opcodes in plain double or long arithmetic, and the tolerance of their results. */
final class ScalarOracle {
    static final float[] SPECIAL = {0f, -0f, 1f, -1f, Float.NaN, Float.POSITIVE_INFINITY,
            Float.NEGATIVE_INFINITY, 1e-40f,
        -1e-40f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 88.5f, -87.5f, 100f, -110f, 3e38f, -3e38f, 1e-30f, 8388607.5f, 1e9f,
        0.99999994f, -0.99999994f, 65519.99f, 65520f, 1e-7f, 6e-8f, 5.9e-8f, 1e-5f, 9.5f};

    private static final MathContext DIGITS = new MathContext(60);
    private static final BigDecimal TWO_BY_ROOT_PI = new BigDecimal(
            "1.12837916709551257389615890312154517168810125865799771");

    private ScalarOracle() { }

    static void fill(DType type, long address, int count, SplittableRandom random) {
        for (int i = 0; i < count; i++) {
            long at = address + (long) i * type.bytes();
            if (type.isFloating()) {
                double wide = i % 5 == 0 ? Math.exp(random.nextDouble(-60, 60)) : random.nextDouble(10);
                double value = i % 3 == 0 && count > 32 ? SPECIAL[random.nextInt(SPECIAL.length)]
                        : random.nextBoolean() ? wide : -wide;
                HostMemory.putDouble(type, at, value);
            } else {
                long value = i % 7 == 0 ? random.nextLong() : random.nextLong(-9, 10);
                HostMemory.putLong(type, at, type == DType.BOOL ? value & 1 : value);
            }
        }
    }

    private static long wrapped(DType type, long value) {
        return switch (type) {
            case I32 -> (int) value;
            case I8 -> (byte) value;
            case U8 -> value & 0xFF;
            default -> value;
        };
    }

    /** Rounds to the values of a floating type. */
    static double rounded(DType type, double value) {
        return switch (type) {
            case F32 -> (float) value;
            case BF16 -> HostMemory.bf16ToFloat(HostMemory.floatToBf16((float) value));
            case F16 -> Float.float16ToFloat(Float.floatToFloat16((float) value));
            default -> value;
        };
    }

    /** Checks the element at the last address, the output, against the inputs at the other addresses. */
    static void check(Opcode opcode, Expression expression, long[] at) {
        DType type = expression.inputs().getLast();
        DType result = expression.outputs().getFirst().type();
        long out = at[at.length - 1];
        if (!type.isFloating()) {
            long[] in = new long[expression.inputs().size()];
            for (int k = 0; k < in.length; k++) {
                in[k] = HostMemory.getLong(expression.inputs().get(k), at[k]);
            }
            long expected = wrapped(result, integer(opcode, type, in));
            assertThat(HostMemory.getLong(result, out)).as("%s %s", opcode, Arrays.toString(in)).isEqualTo(expected);
            return;
        }
        double[] in = new double[expression.inputs().size()];
        for (int k = 0; k < in.length; k++) {
            in[k] = HostMemory.getDouble(expression.inputs().get(k), at[k]);
        }
        if (opcode.name().endsWith("_GRADIENT") && type != DType.F64
                && (Math.abs(in[0]) > 1e9 || Math.abs(in[1]) > 1e9)) {
            return; // Squares of these numbers overflow f32.
        }
        double exact = floating(opcode, type, in);
        double actual = HostMemory.getDouble(result, out);
        if (result == DType.BOOL) {
            assertThat(actual).as("%s %s", opcode, Arrays.toString(in)).isEqualTo(exact);
            return;
        }
        double expected = rounded(type, exact);
        if (Double.isNaN(expected) || Double.isInfinite(expected)) {
            boolean edge = Double.isInfinite(expected) && Math.abs(actual) > 0.9999 * largest(type);
            assertThat(Double.valueOf(edge ? expected : actual)).as("%s %s", opcode, Arrays.toString(in))
                    .isEqualTo(Double.valueOf(expected));
            return;
        }
        double error = Math.abs(actual - exact);
        double tolerance = tolerance(opcode, type, in, exact);
        assertThat(error <= tolerance).as("%s %s %s: %s, exact %s, error %s ulp", opcode, type, Arrays.toString(in),
                actual, exact, error / ulp(type, exact)).isTrue();
    }

    private static double largest(DType type) {
        return switch (type) {
            case F32 -> Float.MAX_VALUE;
            case BF16 -> 0x1.FEp127;
            case F16 -> 65504;
            default -> Double.MAX_VALUE;
        };
    }

    /** Returns the distance between neighbouring values. */
    private static double ulp(DType type, double value) {
        return switch (type) {
            case F64 -> Math.ulp(value);
            case F32 -> Math.ulp((float) value);
            case BF16 -> Math.ulp((float) value) * 0x1p16;
            case F16 -> Math.max(0x1p-24, Math.ulp((float) value) * 0x1p13);
            default -> throw new IllegalArgumentException(type.toString());
        };
    }

    private static double tolerance(Opcode opcode, DType type, double[] in, double exact) {
        double single = Math.ulp((float) exact);
        double unit = switch (type) {
            case F64 -> Math.ulp(exact);
            case F32 -> single;
            default -> ulp(type, exact) * 0.5 + single;
        };
        boolean half = type == DType.BF16 || type == DType.F16;
        double scale = Math.max(Math.abs(in[0]), 1) * (in.length > 1 ? Math.max(Math.abs(in[1]), 1) : 1);
        double step = type == DType.F64 ? 0x1p-52 : 0x1p-23;
        return switch (opcode) {
            case MAXIMUM, MINIMUM, NEG, ABS, SIGN, FLOOR, CEIL, TRUNC, ROUND, RELU, WHERE, CLAMP, RELU_GRADIENT -> 0;
            case ADD, SUB, MUL, DIV, SQUARE, SQRT, RECIPROCAL -> half ? unit : 0.500001 * unit;
            case AFFINE, SIGMOID_GRADIENT, TANH_GRADIENT -> 4 * unit + 2 * step * scale * Math.max(1, Math.abs(in[0]));
            case FMA -> unit;
            case GELU, GELU_TANH, SILU -> 4 * unit + 2 * step * Math.abs(in[0]);
            case GELU_GRADIENT, GELU_TANH_GRADIENT, SILU_GRADIENT -> 8 * unit + 8 * step * scale;
            case ERF, TANH -> 5 * unit;
            case EXP, EXPM1, LOG, LOG1P, SIGMOID, ELU -> 3 * unit;
            case SOFTPLUS, ASINH, ACOSH, ATANH, RSQRT, LEAKY_RELU -> 4 * unit;
            default -> 2 * unit;
        };
    }

    private static double floating(Opcode opcode, DType type, double[] v) {
        double a = v[0];
        double b = v[v.length > 1 ? 1 : 0];
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
            case EQ -> a == b ? 1 : 0;
            case NE -> a != b ? 1 : 0;
            case LT -> a < b ? 1 : 0;
            case LE -> a <= b ? 1 : 0;
            case GT -> a > b ? 1 : 0;
            case GE -> a >= b ? 1 : 0;
            case WHERE -> a != 0 ? b : v[2];
            case CLAMP -> v[2] < (a < b ? b : a) ? v[2] : a < b ? b : a;
            case LEAKY_RELU -> a > 0 ? a : a * b;
            case ELU -> a > 0 ? a : StrictMath.expm1(a) * b;
            case AFFINE -> (type == DType.F64 ? a * b : (double) (float) (a * b)) + v[2];
            case FMA -> Math.fma(a, b, v[2]);
            case RELU_GRADIENT -> a > 0 ? b : 0;
            case SIGMOID_GRADIENT -> b * (a * (1 - a));
            case TANH_GRADIENT -> b * (1 - a * a);
            case GELU_GRADIENT -> b * (normal(a) + a * (StrictMath.exp(-0.5 * a * a) / Math.sqrt(2 * Math.PI)));
            case GELU_TANH_GRADIENT -> {
                double gate = gate(a);
                yield Double.isInfinite(a) ? b * gate : b * (
                        gate + 2 * Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * a * a) * (gate * (1 - gate)) * a);
            }
            case SILU_GRADIENT -> b * (sigmoid(a) * (1 + a * (1 - sigmoid(a))));
            default -> unary(opcode, a);
        };
    }

    private static double unary(Opcode opcode, double a) {
        return switch (opcode) {
            case NEG -> -a;
            case ABS -> Math.abs(a);
            case SIGN -> Math.signum(a);
            case SQUARE -> a * a;
            case SQRT -> Math.sqrt(a);
            case RSQRT -> 1 / Math.sqrt(a);
            case RECIPROCAL -> 1 / a;
            case EXP -> StrictMath.exp(a);
            case EXPM1 -> StrictMath.expm1(a);
            case LOG -> StrictMath.log(a);
            case LOG1P -> StrictMath.log1p(a);
            case SIN -> StrictMath.sin(a);
            case COS -> StrictMath.cos(a);
            case TAN -> StrictMath.tan(a);
            case ASIN -> StrictMath.asin(a);
            case ACOS -> StrictMath.acos(a);
            case ATAN -> StrictMath.atan(a);
            case SINH -> StrictMath.sinh(a);
            case COSH -> StrictMath.cosh(a);
            case TANH -> StrictMath.tanh(a);
            case ASINH -> Double.isInfinite(a) ? a : Math.abs(a) < 1e-4 ? a - a * a * a / 6
                    : Math.copySign(StrictMath.log1p(Math.abs(a) + a * a / (1 + Math.hypot(a, 1))), a);
            case ACOSH -> StrictMath.log1p(a - 1 + Math.sqrt(a - 1) * Math.sqrt(a + 1));
            case ATANH -> Math.copySign(0.5 * StrictMath.log1p(2 * Math.abs(a) / (1 - Math.abs(a))), a);
            case ERF -> erf(a);
            case FLOOR -> Math.floor(a);
            case CEIL -> Math.ceil(a);
            case TRUNC -> a < 0 ? Math.ceil(a) : Math.floor(a);
            case ROUND -> Math.rint(a);
            case SIGMOID -> sigmoid(a);
            case RELU -> Math.max(a, 0.0);
            case GELU -> a * normal(a);
            case GELU_TANH -> a * gate(a);
            case SILU -> a * sigmoid(a);
            case SOFTPLUS -> Math.max(a, 0) + StrictMath.log1p(StrictMath.exp(-Math.abs(a)));
            case IS_NAN -> Double.isNaN(a) ? 1 : 0;
            case IS_INF -> Double.isInfinite(a) ? 1 : 0;
            case IS_FINITE -> Double.isFinite(a) ? 1 : 0;
            default -> throw new IllegalArgumentException(opcode.toString());
        };
    }

    private static double sigmoid(double x) {
        return 1 / (1 + StrictMath.exp(-x));
    }

    private static double gate(double x) {
        return sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x));
    }

    private static double normal(double x) {
        return 0.5 * (1 + erf(x * Math.sqrt(0.5)));
    }

    /** Maclaurin's series with 60 digits. It alternates, and loses some 15 of them for |x| up to 6. */
    static double erf(double x) {
        if (Double.isNaN(x) || Math.abs(x) > 6) {
            return Double.isNaN(x) ? x : Math.signum(x);
        }
        BigDecimal square = new BigDecimal(x).pow(2, DIGITS).negate();
        BigDecimal term = new BigDecimal(x);
        BigDecimal sum = term;
        for (int n = 1; n < 200 && term.abs().doubleValue() > 1e-25 * Math.abs(x); n++) {
            term = term.multiply(square, DIGITS).divide(BigDecimal.valueOf(n), DIGITS);
            sum = sum.add(term.divide(BigDecimal.valueOf(2 * n + 1), DIGITS), DIGITS);
        }
        return sum.multiply(TWO_BY_ROOT_PI, DIGITS).doubleValue();
    }

    private static double remainder(double a, double b) {
        double r = a % b;
        return r != 0 && r < 0 != b < 0 ? r + b : r;
    }

    /** Special cases as in C: 1 to any power and -1 to an infinite power are 1, where Java returns NaN. */
    private static double pow(double a, double b) {
        return a == 1 || a == -1 && Double.isInfinite(b) ? 1 : StrictMath.pow(a, b);
    }

    private static double floorDivide(double a, double b) {
        if (b == 0) {
            return a / b;
        }
        double rest = a % b;
        return Math.rint((a - rest) / b) - (rest != 0 && rest < 0 != b < 0 ? 1 : 0);
    }

    private static long integer(Opcode opcode, DType type, long[] v) {
        long a = v[0];
        long b = v[v.length > 1 ? 1 : 0];
        return switch (opcode) {
            case ADD -> type == DType.BOOL ? a | b : a + b;
            case SUB -> a - b;
            case MUL -> a * b;
            case DIV -> b == 0 ? 0 : a / b;
            case REMAINDER -> b == 0 ? 0 : Math.floorMod(a, b);
            case FLOOR_DIVIDE -> b == 0 ? 0 : Math.floorDiv(a, b);
            case MAXIMUM -> Math.max(a, b);
            case MINIMUM -> Math.min(a, b);
            case EQ -> a == b ? 1 : 0;
            case NE -> a != b ? 1 : 0;
            case LT -> a < b ? 1 : 0;
            case LE -> a <= b ? 1 : 0;
            case GT -> a > b ? 1 : 0;
            case GE -> a >= b ? 1 : 0;
            case AND -> a & b;
            case OR -> a | b;
            case XOR -> a ^ b;
            case NOT -> type == DType.BOOL ? 1 - a : ~a;
            case NEG -> -a;
            case ABS -> Math.abs(a);
            case SIGN -> Long.signum(a);
            case SQUARE -> a * a;
            case FLOOR, CEIL, TRUNC, ROUND -> a;
            case RELU -> Math.max(a, 0);
            case WHERE -> a != 0 ? b : v[2];
            case CLAMP -> Math.min(Math.max(a, b), v[2]);
            case AFFINE -> a * b + v[2];
            case RELU_GRADIENT -> a > 0 ? b : 0;
            default -> throw new IllegalArgumentException(opcode.toString());
        };
    }
}
