package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import java.util.SplittableRandom;

/** The source of an operand's elements. Integers are drawn for integer types and booleans, reals for the others. */
enum Values {
    /** Standard normal, but not within 0.05 of zero, where many functions have a kink; integers from -7 to 7. */
    NORMAL,
    /** From 0.2 to 3; integers from 0 to 9. */
    POSITIVE,
    /** Within ±0.9. */
    UNIT,
    /** From 1.1 to 4. */
    ABOVE_ONE,
    /** Magnitude from 0.9 to 1.1; integers ±1. */
    NEAR_ONE,
    /** Whole numbers from -2 to 2, many of them equal. */
    TIES,
    /** NaN, infinities, both zeros, denormals, the largest numbers, and some ordinary ones, alternately. */
    SPECIAL,
    /** Like {@link #SPECIAL} without the largest and smallest reals: finite sums overflow in no order. */
    NONFINITE,
    /** Distinct elements: a shuffled arithmetic sequence, as small as the type allows. */
    DISTINCT;

    private static final double[] SPECIAL_REALS = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0,
        -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, -1e-3, 3, -3, 100, -100, 1e-7};

    double real(DType dtype, long i, SplittableRandom random) {
        return switch (this) {
            case NORMAL -> {
                double x = random.nextGaussian();
                yield x + Math.copySign(0.05, x);
            }
            case POSITIVE -> random.nextDouble(0.2, 3);
            case UNIT -> random.nextDouble(-0.9, 0.9);
            case ABOVE_ONE -> random.nextDouble(1.1, 4);
            case NEAR_ONE -> random.nextDouble(0.9, 1.1) * (random.nextBoolean() ? 1 : -1);
            case TIES -> random.nextInt(-2, 3);
            case SPECIAL -> specialReal(dtype, (int) (i % (SPECIAL_REALS.length + 6)));
            case NONFINITE -> SPECIAL_REALS[(int) (i % SPECIAL_REALS.length)];
            case DISTINCT -> (i * 7919 % 1999 - 999) / 128.0 + 1e-3;
        };
    }

    long integer(DType dtype, long i, SplittableRandom random) {
        return switch (this) {
            case NORMAL, UNIT, ABOVE_ONE -> dtype == DType.U8 ? random.nextInt(15) : random.nextInt(-7, 8);
            case POSITIVE -> random.nextInt(10);
            case NEAR_ONE -> dtype == DType.U8 || random.nextBoolean() ? 1 : -1;
            case TIES -> dtype == DType.U8 ? random.nextInt(5) : random.nextInt(-2, 3);
            case SPECIAL, NONFINITE -> specialInteger(dtype, (int) (i % 10));
            case DISTINCT -> i * 7919 % 1999 - 999;
        };
    }

    private static double specialReal(DType dtype, int i) {
        double max = switch (dtype) {
            case F64 -> Double.MAX_VALUE;
            case F32 -> Float.MAX_VALUE;
            case BF16 -> 0x1.FEp127;
            case F16 -> 65504;
            case I64, I32, I8, U8, BOOL -> throw new IllegalArgumentException(dtype + " has no special reals");
        };
        double leastNormal = switch (dtype) {
            case F64 -> Double.MIN_NORMAL;
            case F32, BF16 -> Float.MIN_NORMAL;
            default -> 0x1p-14;
        };
        return switch (i) {
            case 0 -> max;
            case 1 -> -max;
            case 2 -> leastNormal;
            case 3 -> -leastNormal;
            case 4 -> leastNormal / 8;
            case 5 -> -leastNormal / 8;
            default -> SPECIAL_REALS[i - 6];
        };
    }

    private static long specialInteger(DType dtype, int i) {
        long min = switch (dtype) {
            case I64 -> Long.MIN_VALUE;
            case I32 -> Integer.MIN_VALUE;
            case I8 -> Byte.MIN_VALUE;
            default -> 0;
        };
        long max = switch (dtype) {
            case I64 -> Long.MAX_VALUE;
            case I32 -> Integer.MAX_VALUE;
            case I8 -> Byte.MAX_VALUE;
            case U8 -> 255;
            default -> 1;
        };
        long[] all = {min, max, 0, 1, -1, 2, min + 1, max - 1, 7, -7};
        return all[i];
    }
}
