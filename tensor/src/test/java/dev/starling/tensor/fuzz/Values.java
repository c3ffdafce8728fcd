package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import java.util.SplittableRandom;

/** The source of an operand's elements. */
enum Values {
    /** Any numbers, including NaN, infinities, subnormal and the largest numbers. */
    ANY,
    /** Numbers about 1, occasionally with a NaN, an infinity or a zero. */
    USUAL,
    /** Numbers about 1. */
    TAME,
    /** Numbers above 0. */
    POSITIVE;

    private enum Kind { COUNTED, TIES, NORMAL, UNIT, POSITIVE, WIDE, NONFINITE, SPECIAL, ZEROS, CONSTANT }

    private static final double[] NONFINITE = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0, -0.0};
    private static final double[] SPECIAL = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0, -0.0, 1,
        -1, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 88.8, -104, 710, -746, 65_504, 65_520, 0x1p-14, 0x1p-24, 0x1p-126,
        0x1p-149, -0x1p-130, 0x1p-1022, 0x1p-1074, Float.MAX_VALUE, -Float.MAX_VALUE, 0x1.FEp127, Double.MAX_VALUE,
        -Double.MAX_VALUE, 1e-7, -1e-7, 3, -3, 100, 1e5, -1e5, 1e9, 16_777_217};
    private static final double[] WHOLE = {0, 1, -1, 2, 7, -7, 127, -128, 255, 128, Integer.MAX_VALUE,
        Integer.MIN_VALUE, 0x1p63, -0x1p63, 1L << 40, 200};

    /** Draws elements of a type. */
    double[] draw(Choices c, DType dtype, int n) {
        Kind kind = switch (this) {
            case ANY -> c.of(Kind.values());
            case USUAL -> c.of(Kind.COUNTED, Kind.TIES, Kind.NORMAL, Kind.NORMAL, Kind.NORMAL, Kind.UNIT,
                    Kind.NONFINITE, Kind.ZEROS, Kind.CONSTANT);
            case TAME -> c.of(Kind.COUNTED, Kind.NORMAL, Kind.UNIT);
            case POSITIVE -> Kind.POSITIVE;
        };
        SplittableRandom random = new SplittableRandom(c.next(1 << 20));
        double constant = kind == Kind.CONSTANT ? c.ofReals(this == ANY ? SPECIAL : NONFINITE) : 0;
        double[] reals = new double[n];
        for (int i = 0; i < n; i++) {
            reals[i] = dtype.isFloating() ? rounded(dtype, real(kind, i, random, constant))
                    : whole(dtype, kind, i, random);
        }
        return reals;
    }

    private static double real(Kind kind, int i, SplittableRandom random, double constant) {
        return switch (kind) {
            case COUNTED -> (i % 7 + 1) * 0.25;
            case TIES -> random.nextInt(-2, 3);
            case NORMAL -> random.nextGaussian();
            case UNIT -> random.nextDouble(-1, 1);
            case POSITIVE -> random.nextDouble(0.1, 3);
            case WIDE -> random.nextGaussian() * Math.exp(random.nextDouble(-90, 90));
            case NONFINITE -> random.nextInt(4) == 0 ? NONFINITE[random.nextInt(NONFINITE.length)]
                    : random.nextGaussian();
            case SPECIAL -> SPECIAL[random.nextInt(SPECIAL.length)];
            case ZEROS -> random.nextBoolean() ? 0.0 : -0.0;
            case CONSTANT -> constant;
        };
    }

    private static double whole(DType dtype, Kind kind, int i, SplittableRandom random) {
        double value = switch (kind) {
            case COUNTED -> i % 7 + 1;
            case TIES, UNIT -> random.nextInt(-2, 3);
            case NORMAL, NONFINITE -> random.nextInt(-9, 10);
            case POSITIVE -> random.nextInt(1, 10);
            case WIDE, SPECIAL, CONSTANT -> WHOLE[random.nextInt(WHOLE.length)];
            case ZEROS -> 0;
        };
        return switch (dtype) {
            case I64 -> value;
            case I32 -> (int) (long) value;
            case I8 -> (byte) (long) value;
            case U8 -> (long) value & 0xFF;
            default -> value == 0 ? 0 : 1;
        };
    }

    /** Rounds to a number of the type, so that a snippet shows the operand's exact elements. */
    static double rounded(DType dtype, double value) {
        return switch (dtype) {
            case F32 -> (float) value;
            case F16 -> Float.float16ToFloat(Float.floatToFloat16((float) value));
            case BF16 -> Float.intBitsToFloat((Float.floatToRawIntBits((float) value) + 0x8000) & 0xFFFF0000);
            default -> value;
        };
    }
}
