package dev.starling.tensor.cpu.jit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Each function stays within its bound in units in the last place over its whole range: the table in docs/numerics.md.
 */
class FunctionPrecisionTest {
    private static final int BLOCK = 1 << 12;
    private static final double[] SPECIAL = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 5e-324, -5e-324, 1e-310, 0x1p-1022,
        Double.MAX_VALUE, -Double.MAX_VALUE, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
        709.78, 710.4, -745.13, -708.4, 88.72, -87.33, -103.9, 0.6249999, 0.6250001, 0x1p30, 0x1.000001p30, 1e22};

    /** A function, and its maximum error in units in the last place in f32 and f64. */
    enum Case {
        EXP(1, 1), EXPM1(1.5, 1.25), LOG(1, 1), LOG1P(1.5, 1), SIN(0.51, 1), COS(0.51, 1), TAN(0.51, 1.25),
        ASIN(0.51, 1.25), ACOS(0.51, 1.25), ATAN(0.51, 1.5), SINH(0.51, 1.75), COSH(0.51, 1.5), TANH(5.25, 1.5),
        ASINH(0.51, 1), ACOSH(0.51, 1), ATANH(0.51, 1.25), ERF(5.75, 1.75), SIGMOID(2.5, 2), SILU(3, 2.75),
        SOFTPLUS(2, 1.75), RSQRT(1.5, 1.5), POW(0.51, 1), ATAN2(0.51, 1.5);

        final double single;
        final double full;

        Case(double single, double full) {
            this.single = single;
            this.full = full;
        }

        Opcode opcode() {
            return Opcode.valueOf(name());
        }

        /** Returns whether the arguments have a finite result that is neither exact nor a limit. */
        boolean isRegular(double x, double y) {
            if (!Double.isFinite(x) || !Double.isFinite(y) || x == 0) {
                return false;
            }
            return switch (this) {
                case LOG, RSQRT -> x > 0;
                case POW -> x > 0 && y != 0;
                case LOG1P -> x > -1;
                case ASIN, ACOS -> Math.abs(x) <= 1;
                case ATANH -> Math.abs(x) < 1;
                case ACOSH -> x >= 1;
                case EXP, EXPM1, SINH, COSH, SIGMOID, SILU, SOFTPLUS -> Math.abs(x) < 1e4;
                case TANH -> Math.abs(x) < 1e6;
                case ATAN2 -> y != 0;
                case SIN, COS, TAN, ATAN, ASINH, ERF -> true;
            };
        }

        BigDecimal exact(double a, double b) {
            BigDecimal x = new BigDecimal(a);
            BigDecimal y = new BigDecimal(b);
            return switch (this) {
                case EXP -> PreciseFunctions.exp(x);
                case EXPM1 -> PreciseFunctions.expm1(x);
                case LOG -> PreciseFunctions.log(x);
                case LOG1P -> PreciseFunctions.log1p(x);
                case SIN -> PreciseFunctions.sin(x);
                case COS -> PreciseFunctions.cos(x);
                case TAN -> PreciseFunctions.tan(x);
                case ASIN -> PreciseFunctions.asin(x);
                case ACOS -> PreciseFunctions.acos(x);
                case ATAN -> PreciseFunctions.atan2(x, BigDecimal.ONE);
                case SINH -> PreciseFunctions.sinh(x);
                case COSH -> PreciseFunctions.cosh(x);
                case TANH -> PreciseFunctions.tanh(x);
                case ASINH -> PreciseFunctions.asinh(x);
                case ACOSH -> PreciseFunctions.acosh(x);
                case ATANH -> PreciseFunctions.atanh(x);
                case ERF -> PreciseFunctions.erf(x);
                case SIGMOID -> PreciseFunctions.sigmoid(x);
                case SILU -> PreciseFunctions.sigmoid(x).multiply(x);
                case SOFTPLUS -> PreciseFunctions.softplus(x);
                case RSQRT -> BigDecimal.ONE.divide(x.sqrt(new MathContext(40)),
                        new MathContext(40));
                case POW -> Math.abs(b * StrictMath.log(a)) > 1000 ? power(b > 0 == a > 1)
                        : PreciseFunctions.pow(x, y);
                case ATAN2 -> PreciseFunctions.atan2(x, y);
            };
        }

        private static BigDecimal power(boolean huge) {
            return huge ? BigDecimal.TEN.pow(400) : BigDecimal.ONE.movePointLeft(400);
        }
    }

    private static double draw(Case function, SplittableRandom random, boolean second) {
        double sign = random.nextBoolean() ? 1 : -1;
        return switch (random.nextInt(second ? 3 : 6)) {
            case 0 -> sign * Math.scalb(random.nextDouble(1, 2), random.nextInt(-1074, 1024));
            case 1 -> random.nextDouble(-4, 4);
            case 2 -> sign * Math.scalb(random.nextDouble(1, 2), random.nextInt(-12, 12));
            case 3 -> 1 + sign * Math.scalb(random.nextDouble(1, 2), random.nextInt(-40, -1));
            case 4 -> random.nextDouble(-760, 760);
            default -> random.nextInt(1 << 24) * (Math.PI / 2);
        };
    }

    @ParameterizedTest
    @EnumSource(Case.class)
    void keepsItsBound(Case function) {
        check(function, DType.F64, 256, 1);
        check(function, DType.F32, 256, 2);
    }

    @ParameterizedTest
    @EnumSource(Case.class)
    @Tag("stress")
    void keepsItsBoundForManyArguments(Case function) {
        check(function, DType.F64, 50_000, 3);
        check(function, DType.F32, 50_000, 4);
    }

    private static void check(Case function, DType type, int count, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Opcode opcode = function.opcode();
        FusedLoop loop = FusedLoop.of(SingleOpcode.of(opcode, type, 0));
        double worst = 0;
        double[] at = new double[2];
        try (Arena arena = Arena.ofConfined()) {
            long[] addresses = new long[opcode.arity() + 1];
            Arrays.setAll(addresses, k -> arena.allocate((long) BLOCK * type.bytes(), 64).address());
            for (int done = 0; done < count; done += BLOCK) {
                int n = Math.min(BLOCK, count - done);
                for (int i = 0; i < n; i++) {
                    for (int k = 0; k < opcode.arity(); k++) {
                        double value = done + i < SPECIAL.length && k == 0 ? SPECIAL[i]
                                : draw(function, random, k == 1);
                        HostMemory.putDouble(type, addresses[k] + (long) i * type.bytes(), value);
                    }
                }
                run(loop, n, addresses);
                for (int i = 0; i < n; i++) {
                    long offset = (long) i * type.bytes();
                    double x = HostMemory.getDouble(type, addresses[0] + offset);
                    double y = HostMemory.getDouble(type, addresses[opcode.arity() - 1] + offset);
                    if (function.isRegular(x, y)) {
                        double actual = HostMemory.getDouble(type, addresses[opcode.arity()] + offset);
                        double error = error(function, type, actual, function.exact(x, y));
                        if (!(error <= worst)) {
                            worst = error;
                            at = new double[] {x, y, actual};
                        }
                    }
                }
            }
        }
        System.getLogger(FunctionPrecisionTest.class.getName()).log(System.Logger.Level.DEBUG,
                "{0} {1}: {2} ulp at {3}", function, type, worst, Arrays.toString(at));
        assertThat(worst).as("%s of %s at %s", function, type, Arrays.toString(at))
                .isLessThanOrEqualTo(type == DType.F32 ? function.single : function.full);
    }

    private static void run(FusedLoop loop, int count, long... addresses) {
        Launch launch = Launch.of(loop);
        for (int k = 0; k < addresses.length; k++) {
            launch.operand(k, addresses[k]);
        }
        launch.runFlat(count);
    }

    /**
     * Returns the error in units in the last place. Sigmoid and related functions are 0 where f32 would be subnormal.
     */
    private static double error(Case function, DType type, double actual, BigDecimal exact) {
        double nearest = type == DType.F32 ? exact.floatValue() : exact.doubleValue();
        if (actual == nearest) {
            return 0;
        }
        if (!Double.isFinite(actual)) {
            return Double.isInfinite(actual) && Math.abs(nearest) == max(type) ? 1 : Double.POSITIVE_INFINITY;
        }
        if (!Double.isFinite(nearest)) {
            return Math.abs(actual) == max(type) ? 1 : Double.POSITIVE_INFINITY;
        }
        double ulp = type == DType.F32 ? Math.ulp((float) nearest) : Math.ulp(nearest);
        boolean flushed = function == Case.SIGMOID || function == Case.SILU;
        if (type == DType.F32 && flushed && Math.abs(nearest) < 0x1p-119) {
            return actual == 0 || Math.abs(actual - nearest) <= 4 * ulp ? 0 : Double.POSITIVE_INFINITY;
        }
        return new BigDecimal(actual).subtract(exact).abs().divide(new BigDecimal(ulp), MathContext.DECIMAL64)
                .doubleValue();
    }

    private static double max(DType type) {
        return type == DType.F32 ? Float.MAX_VALUE : Double.MAX_VALUE;
    }
}
